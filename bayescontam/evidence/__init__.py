"""Evidence: from matches and judgements to contamination covariates."""
