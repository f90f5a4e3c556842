"""Limits of the service. A request beyond one of them gets an error that names it."""

K = 100
"""Length of a list."""
EDITS = 200
"""Ids in each list of edits, and in what an unseen user likes."""
BATCH_USERS = 1000
"""Users in one batch request."""
BATCH_ROWS = 20_000
"""Rows in all lists of one batch request together."""
FILTER = 10_000
"""Bundles that a request allows or denies."""
FOUND = 50
"""Nodes in the answer to a search."""
TEXT = 200
"""Characters of an id or of a search text."""
BUDGET = 400
"""Sets of edits that an explanation may try."""
MAX_USERS = 1000
"""Users who enter or leave an audience, listed in one answer."""
HEADER_BYTES = 1 << 16
"""Size of a request's head."""
BODY_BYTES = 1 << 20
"""Size of a request's body."""
BODY_SECONDS = 10.0
"""Time in which a request has to arrive."""
ANSWER_SECONDS = 20.0
"""Time in which an answer has to be computed."""
QUEUE = 32
"""Requests that wait for the worker."""
CONCURRENT = 512
"""Requests that are being answered."""
REPORT_SECONDS = 60.0
"""Lifetime of the address of the report."""
