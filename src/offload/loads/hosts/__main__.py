"""The agent as a program, for tests: `python -m offload.loads.hosts`."""

from offload.loads.hosts import agent

agent.main()
