"""The outcomes of a request and what they mean for retries, resumption and the cache."""

from __future__ import annotations

OUTCOMES = (
    "ok",
    "length",
    "overflow",
    "empty",
    "reasoning_only",
    "incomplete",
    "declined",
    "malformed",
    "rate_limited",
    "server_error",
    "connection",
    "timeout",
    "refused",
    "budget",
)
"""Every outcome that a ChatReply can have; interfaces.ChatReply says what each means."""

TRANSPORT = frozenset({"malformed", "rate_limited", "server_error", "connection", "timeout", "refused", "budget"})
"""No model answered: a resume asks these again. The others are answers, good or bad, and are not asked for twice."""

RETRIED = ("rate_limited", "server_error", "connection", "timeout", "malformed")
"""What is retried within a run, unless a config says otherwise. Bad answers are not, because asking until one pleases
inflates scores."""
