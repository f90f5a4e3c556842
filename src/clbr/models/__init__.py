"""Models: one file each, behind one interface (`base.py`), found by name (`registry.py`)."""
