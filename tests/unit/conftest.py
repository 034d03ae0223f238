"""What tests of units share."""

from __future__ import annotations

from hypothesis import settings

# a machine that does something else now and then is no fault of what is tested
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
