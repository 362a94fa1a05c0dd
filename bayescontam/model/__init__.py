"""The PyMC model of a spec and a table: design, effects, likelihood, quadrature."""
