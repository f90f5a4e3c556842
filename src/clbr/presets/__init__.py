"""Presets: settings that are known to be good, in TOML files.

`{model}-{data}.toml` holds settings of the model and of its training. `{model}-{data}-{paradigm}[-{constraint}].toml`
holds what a paradigm adds and changes; `-{constraint}` is in the name exactly if it is not the paper's `adaptive`.
"""
