"""From a trained run to answers: the artefact, recommendations, what-if, explanations."""
