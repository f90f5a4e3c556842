"""How much may be asked at once. Each limit has its own clear refusal."""

TOP = 100
"""Places in a list."""
EDITS = 200
"""Things added, or dropped, in one question; and likes of someone never seen."""
BATCH = 1000
"""Users in one request."""
LISTED = 10_000
"""Bundles that are allowed or denied."""
FOUND = 50
"""Nodes in the answer to a search."""
SHOWN = 50
"""Users who enter or leave, of each as many as are named."""
TEXT = 200
"""Letters of an id or of a search."""
BUDGET = 400
"""Sets of edits that an explanation may try."""
HEAD = 1 << 16
"""Bytes of a request before its body."""
PLACES = 20_000
"""Places in all lists of one request together."""
BODY = 1 << 20
"""Bytes of a request."""
BODY_SECONDS = 10.0
"""In which a request has to arrive."""
ANSWER_SECONDS = 20.0
"""In which an answer has to be found."""
WAITING = 32
"""Questions that need computing and wait for their turn."""
AT_ONCE = 512
"""Requests in the house."""
PASS_SECONDS = 60.0
"""For which the address of the report is good."""
