"""Settings that every benchmark shares."""

import matplotlib

matplotlib.use("Agg")  # no window opens, on a desktop either
