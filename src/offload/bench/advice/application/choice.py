"""HEAD"""

from __future__ import annotations

def evaluate(question: Question, planned: Plan, records: Sequence[Record]) -> ApplicationAnswer:
    """Choose among the servers and sizes that were measured beside each other.

    Raise RunError if none has a rate, or if none fits into the memory.
    """
    run = RunRecords(records)
    windows = _windows(planned, run)
    problems = tuple(dict.fromkeys(r.problem for r in records if r.problem))
    if not windows:
        first = problems[0] if problems else Problem("unknown", "nothing was measured")
        raise RunError(first.message, first.remedy)
    options = {place: _option(planned.cases[place], found) for place, found in windows.items()}
    allowed = _within(question, options)
    shares = _shares(windows)
    fastest = max(allowed, key=lambda place: shares[place])
    tied = [p for p in allowed if p == fastest or _is_tie(p, fastest, windows, shares)]
    chosen = min(tied, key=lambda p: sizes.preference(options[p].case.server, options[p].size))
    others = tuple(
        _compared(options[place], windows, chosen, place, shares)
        for place in sorted(options, key=lambda place: -shares[place])
        if place != chosen
    )
    return _complete(question, planned, run, options, chosen, others, tied, problems)


def _complete(
    question: Question,
    planned: Plan,
    run: RunRecords,
    options: Mapping[int, Option],
    chosen: int,
    others: tuple[Option, ...],
    tied: Sequence[int],
    problems: tuple[Problem, ...],
) -> ApplicationAnswer:
    best = options[chosen]
    own = run.at(chosen)
    loads = [r for r in own.last_attempts() if r.trial.kind == LONG]
    preloaded = [
        record
        for place, case in enumerate(planned.cases)
        if case.server == best.case.server and case.settings.get("preload") == "yes"
        for record in run.at(place).last_attempts()
        if {**case.settings, "preload": None} == {**best.case.settings, "preload": None}
    ]
    probed = [r for r in run.records if r.trial.block == PROBE_BLOCK]
    disturbed = _disturbed(others, own.windows())
    same = [o.size for o in others if o.case.server == best.case.server]
    return ApplicationAnswer(
        question,
        best,
        others,
        tuple(dict.fromkeys(options[place].case.server for place in [chosen, *tied])),
        tuple(application_causes.of_case(probed)),
        tuple(application_causes.of_case(own.windows())),
        next((r.baseline.alone_s for r in probed if r.baseline.alone_s), None),
        largest=not any(size.total > best.size.total for size in same),
        percentiles=tuple(latency.percentile(record) for record in loads[: len(latency.LOADS)]),
        memory_mib=next((m for r in loads[::-1] if (m := r.resources.memory.pss_mib)), None),
        worker=_worker_memory(loads),
        preloaded=_worker_memory(preloaded),
        disturbed=disturbed,
        problems=problems,
    )


def _windows(planned: Plan, run: RunRecords) -> dict[int, list[Record]]:
    """Return the windows of each place that were measured beside others; else the probe's."""
    compared = {
        place: [r for r in run.at(place).windows() if r.trial.block != PROBE_BLOCK]
        for place in range(len(planned.cases))
    }
    known = {place: found for place, found in compared.items() if _rates(found)}
    if known:
        return known
    probed = {place: run.at(place).windows() for place in range(len(planned.cases))}
    return {place: found for place, found in probed.items() if _rates(found)}


def _rates(found: Sequence[Record]) -> Mapping[Round, float]:
    return by_round(found, comparison.rate_of)


def _option(case: Case, found: Sequence[Record]) -> Option:
    known = [m for r in found if (m := r.application.worker_pss_mib) is not None]
    return Option(case, rate.of_windows(found), max(known, default=None))


def _within(question: Question, options: Mapping[int, Option]) -> list[int]:
    """Return the places that fit into the memory; raise RunError if there is none."""
    limit = question.memory_mib
    if limit is None:
        return [*options]
    found = [p for p, o in options.items() if o.memory_mib is None or o.memory_mib <= limit]
    if found:
        return found
    least = min(options.values(), key=lambda o: o.memory_mib or math.inf)
    what = f"no server fits into {limit:.0f} MiB: {least.case.server} needs {least.memory_mib:.0f}"
    raise RunError(f"{what} MiB", "allow more memory")


def _shares(windows: Mapping[int, Sequence[Record]]) -> dict[int, float]:
    """Return the rate of each place over that of the one that most rounds have.

    Within a round both were measured on the same machine at the same time.
    """
    rates = {place: _rates(found) for place, found in windows.items()}
    reference = max(rates, key=lambda place: len(rates[place]))
    base = rates[reference]
    mean = statistics.geometric_mean(base.values())
    found = {}
    for place, own in rates.items():
        pairs = [value / base[which] for which, value in own.items() if which in base]
        whole = [value / mean for value in own.values()]
        found[place] = statistics.geometric_mean(pairs or whole)
    return found


def _is_tie(
    place: int,
    fastest: int,
    windows: Mapping[int, Sequence[Record]],
    shares: Mapping[int, float],
) -> bool:
    """Whether a place may be as fast as the fastest one."""
    share = shares[place] / shares[fastest]
    found = comparison.compare(windows[fastest], windows[place]).verdict
    if found.pairs:
        return found.outcome == FASTER or (found.outcome != SLOWER and share >= 1 - WORSE)
    return share >= 1 - WORSE


def _compared(
    option: Option,
    windows: Mapping[int, Sequence[Record]],
    chosen: int,
    place: int,
    shares: Mapping[int, float],
) -> Option:
    found = comparison.compare(windows[chosen], windows[place])
    share = shares[place] / shares[chosen]
    compared = found if found.verdict.pairs else None
    return Option(option.case, option.rate, option.worker_mib, share, compared)


def _disturbed(others: Sequence[Option], own: Sequence[Record]) -> Flag | None:
    known = [o.compared.disturbed for o in others if o.compared and o.compared.disturbed]
    return known[0] if known else comparison.disturbance(own, [])


def _worker_memory(records: Sequence[Record]) -> WorkerMemory | None:
    known = [r.application for r in records if r.application.worker_pss_mib is not None]
    if not known:
        return None
    return WorkerMemory(known[-1].worker_pss_mib, known[-1].worker_private_mib)
