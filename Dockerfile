# The service in a container. docs/service.md says how to build and run it.
FROM python:3.11-slim AS build
# Settings of pip may be given with --build-arg, for instance an index that has torch's CPU build.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_CONSTRAINT=/source/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/clbr && /opt/clbr/bin/pip install --quiet '.[serve,ann]'

FROM python:3.11-slim
# The compiled kernels use OpenMP.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --no-create-home clbr
COPY --from=build /opt/clbr /opt/clbr
ENV PATH=/opt/clbr/bin:$PATH OMP_WAIT_POLICY=passive NUMBA_CACHE_DIR=/tmp/numba
USER clbr
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
# The recommender folder is mounted; the token comes from CLBR_TOKEN.
CMD ["clbr", "serve", "/recommender", "--host", "0.0.0.0", "--port", "8000"]
