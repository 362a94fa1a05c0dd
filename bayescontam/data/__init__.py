"""Tables that users bring: responses, covariates, judgements, and logs of other tools."""
