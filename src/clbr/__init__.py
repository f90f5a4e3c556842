"""Bundle recommendation with counterfactual learning."""
