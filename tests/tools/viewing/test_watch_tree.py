"""The tree that is watched: the same however it was read, folded with counts, found again when it has moved."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from grown import Grown
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforecast.store import searches
from kforecast.store.searches import Search
from kforecast.tools.viewing import tree as trees
from kforecast.tools.viewing.tree import FOLD, Tree, TreeAsk, TreeLine

ALL = TreeAsk(0, 1000)


def row(grown: Grown) -> Search:
    found = searches.get(grown.store, grown.search_id)
    assert found is not None
    return found


def read(grown: Grown, tree: Tree | None = None) -> Tree:
    known = tree or Tree(grown.search_id)
    while not known.look(grown.store, row(grown)):
        pass
    return known


def lines(grown: Grown, ask: TreeAsk = ALL) -> list[TreeLine]:
    return list(read(grown).page(grown.store, ask).lines)


def test_children_stand_below_their_parent_with_marks(grown: Grown) -> None:
    good = grown.child(log2=0.7, idea="vectorised")
    waits = grown.propose(good, "padded")
    grown.decide(waits)
    flies = grown.propose(idea="tiled")
    grown.decide(flies)
    grown.begin(flies)
    wrong = grown.child(good, None)
    found = lines(grown)
    assert [line.key for line in found] == [grown.root, good, waits, wrong, flies]
    assert [line.mark for line in found] == ["seed", "best", "queued", "failed", "measuring"]
    assert [line.guides for line in found] == ["", "+", "|+", "|L", "L"]
    assert found[1].log2 == 0.7 and found[2].log2 is None and found[2].forecast is not None


def test_pruned_branches_are_one_line_with_counts_until_it_is_opened(grown: Grown) -> None:
    for _ in range(3):
        grown.decide(grown.propose(), "drop")
    grown.child(log2=None)
    kept = grown.child(log2=0.1)
    (seed, one, fold) = lines(grown)
    assert (one.key, fold.key, fold.pruned) == (kept, FOLD + grown.root, (3, 1))
    opened = lines(grown, TreeAsk(0, 1000, unpruned=frozenset({seed.key})))
    assert len(opened) == 6 and not any(line.pruned for line in opened)


def test_an_audit_is_marked(grown: Grown) -> None:
    node = grown.propose()
    grown.decide(node, "drop", audited=True)
    tree = read(grown)
    tree.read_audits(grown.store, row(grown))
    assert tree.mark(tree.index[node]) == "audited"


def test_a_folded_node_says_what_is_below_it(grown: Grown) -> None:
    top = grown.child(log2=0.1)
    grown.child(top, 0.9)
    grown.child(top, 0.3)
    (_, line) = lines(grown, TreeAsk(0, 1000, closed=frozenset({top})))
    assert (line.folded, line.inside, line.best_inside) == (True, 2, 0.9)


def test_the_line_asked_about_is_found_wherever_it_is(grown: Grown) -> None:
    nodes = [grown.child(log2=index / 100) for index in range(30)]
    page = read(grown).page(grown.store, TreeAsk(0, 5, about=nodes[20]))
    assert page.at == 21 and page.first <= 21 < page.first + 5 and page.total == 31
    best = read(grown).page(grown.store, TreeAsk(0, 5, to="best", best_first=True))
    assert best.at == 1 and best.lines[1].key == nodes[-1] and best.lines[1].mark == "best"
    newest = read(grown).page(grown.store, TreeAsk(0, 5, to="newest"))
    assert newest.at == 30


def test_a_line_that_was_folded_away_leads_to_what_folded_it(grown: Grown) -> None:
    top = grown.child(log2=0.1)
    below = grown.child(top, 0.05)
    page = read(grown).page(grown.store, TreeAsk(0, 9, about=below, closed=frozenset({top})))
    assert page.at == 1 and page.lines[1].key == top


def test_what_is_looked_at_stays_when_the_best_moves_elsewhere(grown: Grown) -> None:
    node = grown.root
    for depth in range(6):
        node = grown.child(node, 0.1 * (depth + 1))
    above = grown.propose(node)
    grown.decide(above)
    tree = read(grown)
    assert tree.page(grown.store, TreeAsk(0, 50, about=node)).at == 6
    best = grown.child(log2=3.0)
    page = read(grown, tree).page(grown.store, TreeAsk(0, 50, about=node))
    assert page.at == 6 and page.lines[6].key == node and best in [line.key for line in page.lines]
    assert node not in [line.key for line in tree.page(grown.store, TreeAsk(0, 50)).lines]
    folded = tree.page(grown.store, TreeAsk(0, 50, about=node, closed=frozenset({grown.root})))
    assert folded.at == 0


def test_candidates_that_changed_before_they_were_seen_are_not_lost(grown: Grown) -> None:
    tree = read(grown)
    first = grown.propose()
    second = grown.propose()
    grown.decide(first)
    assert read(grown, tree).ids == [grown.root, first, second]


def test_a_filter_lists_what_matches(grown: Grown) -> None:
    grown.child(log2=0.1, idea="Unroll by 4")
    grown.child(log2=None, idea="other")
    assert [line.idea for line in lines(grown, TreeAsk(0, 9, like="unroll"))] == ["Unroll by 4"]
    assert [line.idea for line in lines(grown, TreeAsk(0, 9, like="incorrect"))] == ["other"]


def test_a_tree_of_several_pages_is_whole_in_the_end(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(25):
        grown.child(log2=index / 100)
    whole = sums(read(grown))
    monkeypatch.setattr(trees, "FIRST_PAGE", 4)
    monkeypatch.setattr(trees, "PAGE", 10)
    tree = Tree(grown.search_id)
    assert not tree.look(grown.store, row(grown)) and len(tree.ids) == 4
    assert tree.page(grown.store, ALL).more
    assert sums(read(grown, tree)) == whole


def sums(tree: Tree) -> tuple[object, ...]:
    return tree.ids, tree.parent, tree.state, tree.log2, tree.size, tree.alive, tree.top, tree.best, tree.measuring


steps = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["good", "bad", "drop", "wait", "again"])), max_size=25)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps)
def test_read_in_pieces_or_at_once_it_is_the_same_tree(steps: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grown = Grown(Path(folder) / "k.db")
        nodes = [grown.root]
        follower = read(grown)
        for number, (parent, what) in enumerate(steps):
            above = nodes[parent % len(nodes)]
            if what == "again" and above != grown.root:
                grown.measure(above, -0.01 * number)
            else:
                node = grown.propose(above)
                nodes.append(node)
                if what != "wait":
                    grown.decide(node, "drop" if what == "drop" else "measure")
                if what in ("good", "bad"):
                    grown.measure(node, None if what == "bad" else 0.03 * number)
            if number % 3 == 0:
                read(grown, follower)
        read(grown, follower)
        assert sums(follower) == sums(read(grown))
        for index in range(len(follower.ids)):
            below = [other for other in range(len(follower.ids)) if index in up(follower, other)]
            assert follower.size[index] == len(below)
            tops = [value for other in (index, *below) if (value := follower.log2[other]) is not None]
            assert follower.top[index] == (max(tops) if tops else None)
        grown.close()


def up(tree: Tree, number: int) -> list[int]:
    path = []
    while tree.parent[number] >= 0:
        number = tree.parent[number]
        path.append(number)
    return path
