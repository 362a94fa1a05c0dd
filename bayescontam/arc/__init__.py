"""Tasks of the Abstraction and Reasoning Corpus: a baseline that solves some of them."""
