"""The test suites of other process pools, run against this pool.

Their files are downloaded when the tests run and are never copied into this repository. Adapters in
`inside/` replace the peer's pool by ours in the process that runs one of their tests.
"""
