"""What runs and records the published studies, whose analyses are the scripts in studies/."""
