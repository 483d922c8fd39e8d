"""`agent`: candidates come from whoever calls, through `search_propose`; the search says what is worth improving."""

from __future__ import annotations

from .protocol import Nothing, Proposal, ProposalAsk


class AgentGenerator:
    """Never asked: it waits to be told."""

    name = "agent"
    inline = True
    asks = True

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        """Nothing of its own."""
        return Nothing("unusable", "an agent proposes by itself")
