"""The judge: whether each read saw what its level promises, one record after the other."""
