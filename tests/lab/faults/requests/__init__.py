"""Tests of the malformed requests of the fault lab."""
