"""Logs that machines read: one JSON object a line."""

import json
import logging
from datetime import UTC, datetime
from typing import Literal

Level = Literal["info", "warning", "error"]


class JsonLines(logging.Formatter):
    """Time, level, what happened, and what is told of it."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
            **getattr(record, "told", {}),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def configure(level: Level) -> None:
    """To the standard error stream; the server's own lines in the same form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("clbr.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == "clbr.service" else "WARNING")
