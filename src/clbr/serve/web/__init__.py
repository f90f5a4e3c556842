"""The answers of an artefact over HTTP, and a page to ask them from."""
