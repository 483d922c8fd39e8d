"""What a client's model reads of each tool: what it does, when to use it, what comes back, what it costs."""

from __future__ import annotations

INSTRUCTIONS = """\
kforecast tells how fast a GPU or CPU kernel is on this machine, and how fast one would be, before it is run.
S is always baseline time / candidate time: above 1 is faster. A kernel that is wrong or does not compile is an answer
(a verdict), never a tool error; a tool error says what to correct.
Usual way: measure_kernel your starting kernel; forecast_kernel ideas and drop the bad ones; measure_kernel the rest. Or
let `search` keep the books: with generator "agent" it asks you for candidates and measures those worth it.
Only measured kernels count as faster. Every answer's `next` says what to do now, and ids replace source texts."""

FORECAST = """\
Forecast, without running it, whether a kernel is correct and how much faster than a baseline it is. Use it on every
idea before spending a measurement on it, up to 16 at once.

Returns `decision`: trust (act on it), measure (call measure_kernel), drop (try another idea); p_correct; p_faster
and S (median, 80% interval, p_bins) given that it is correct; compile facts (registers, spills, shared memory,
occupancy, or the compiler's error); on how many verified pairs the numbers stand (calibration: with state `none`
they rank but promise nothing); the kernel's id.

One call is useful: the built-in forecaster answers. Two calls are worth more, because you read code better than it
does:
1. detail="brief" returns what you lack: the measured kernels of this task that say most about this pair, the
   baseline's time against the physical floor, facts of both sides, the device.
2. Call again with own={p_correct, p_bins, forecaster}: your probabilities become the forecast. They are calibrated
   on your own record (each measurement of a kernel that you forecast before counts), so that in time `trust` spares
   you measurements, and an error of your instinct (too bold, too timid) is corrected. `own` is refused once S of
   the pair follows from measurements, its own or others'; that is then told instead (backend `measured`).

Cost: one compilation, no device time. cost_usd is null or 0 unless a person has configured a hosted model and
agreed."""

MEASURE = """\
Compile a kernel, check every element of its outputs against the task's reference, and time it against a baseline on
a real device, interleaved, cold caches first. The only way to know; use it on kernels that a forecast does not
settle.

Returns `verdict`: ok, compile_error, launch_error, incorrect, timeout, crashed, tampered, impossible or
unsupported, with reason, diagnostics and the first mismatch; if ok: `comparison` (faster, slower, tie, unclear,
none), speedup S with its interval, times in microseconds, percent_of_floor (100: no kernel can be faster), the
worst case, noise.

Waits up to wait_s seconds. Work that takes longer answers state `working` with request_id, queue_position, eta_s
and poll_after_s, and goes on without you: call get_status(id=request_id, wait_s=40). That is no error. A call that
you cancel before it answered cancels its measurement.

Cost: seconds of the device, which others may share; quick about a second, claim the most."""

SEARCH = """\
Begin a search for a faster kernel: a tree of candidates grown from a seed under a budget, forecast first, measured
where that pays, everything remembered. Use it for more than a handful of ideas.

Returns at once with search_id; the search lives in a process of its own and outlives your session. With generator
`agent` you are the one who proposes: the answer's state is `input_required` and `asks` names the parents worth
improving, with what was tried from each; read a parent's source (the file source_path, or get_status(id=kernel_id,
detail="full")), write better kernels, hand them to search_propose, until the budget is spent. With the other
generators just look again with get_status.

Returns further `best` (always measured; S against the seed), spent, limits, counts.

Cost: what the budget allows, which needs at least one limit, e.g. {"measurements": 30}: seconds of the device, and US
dollars only with generator llm. With the same request_key it is the same search, however often it is asked for."""

PROPOSE = """\
Give a search 1 to 16 candidates, each an improvement of a parent from its `asks`. Propose several different ideas
at once; the search forecasts them (with your own probabilities where you give `own`), measures those worth it and
skips the rest.

Returns what was accepted: kernel_id, decision and p_faster (against the nearest measured ancestor, if correct), null
until it is forecast; what was rejected and why (does not parse, another task, a duplicate); and where the search
stands, with the next asks. Waits up to wait_s seconds for the decisions, not for the measurements: what came of each
tells get_status(id=search_id, wait_s=40, detail="full"). The same child of the same parent again is the same
candidate, so a call that timed out may be repeated.

Cost: the search's budget."""

STATUS = """\
Look at anything by its id: a request r_... or measurement m_... (answers as measure_kernel does), a search s_...
(as search does; with detail="full" also what came of each candidate), a kernel k_... (its task, language, last
measurements, a file with its source and, with detail="full", the source itself), a forecast f_.... Without an id: the
last ten measurements and searches, what waits, who holds the devices, and the names of the built-in tasks.

With wait_s it waits for a request to end, or for a search to rest or, given its `cursor`, to have news. Changes
nothing; costs nothing."""

STOP = """\
End a request r_... or a search s_... now and free the device. What was measured is kept. Something that has ended
already is no error. Use it when you lose interest, so that others need not wait."""
