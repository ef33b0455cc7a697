"""Soft coding by Claim 2: renormalised codes, and what rounding does to them."""
