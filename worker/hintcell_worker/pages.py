"""Responses: a ranking, or one page of it, as canonical JSON without a line end."""

import msgspec
from msgspec import UNSET, UnsetType

from hintcell_worker import canonical
from hintcell_worker.cursor import encode_cursor
from hintcell_worker.protocol import SCHEMA, STATUS, Page
from hintcell_worker.ranking import Ranking


class _Candidate(msgspec.Struct, frozen=True, gc=False):
    """`protocol.Candidate` with its score already in canonical digits."""

    candidate_id: str
    inspection_rank: int
    bm25_score: msgspec.Raw


class _Response(msgspec.Struct, frozen=True):
    """`protocol.Response` as it is written."""

    schema: str
    snapshot_id: str
    status: str
    policy: str
    candidates: list[_Candidate]
    page: Page | UnsetType


def whole_ranking(ranking: Ranking) -> bytes:
    """The response that lists every candidate and has no page."""
    return _response(ranking, 0, len(ranking.ids), UNSET)


def page(ranking: Ranking, offset: int, limit: int) -> bytes:
    """The response with at most `limit` candidates from `offset` (0 <= offset < total)."""
    total = len(ranking.ids)
    end = min(offset + limit, total)
    return _response(
        ranking,
        offset,
        end,
        Page(
            total_candidates=total,
            offset=offset,
            returned=end - offset,
            ranking_sha256=ranking.sha256,
            next_cursor=encode_cursor(end, ranking.sha256) if end < total else UNSET,
        ),
    )


def _response(ranking: Ranking, start: int, end: int, page: Page | UnsetType) -> bytes:
    positions = ranking.order[start:end]
    scores: list[float] = ranking.scores[positions].tolist()
    candidates = [
        _Candidate(candidate_id, place, canonical.number(score))
        for place, (candidate_id, score) in enumerate(zip(ranking.ids.at(positions), scores, strict=True), start + 1)
    ]
    return canonical.encode(_Response(SCHEMA, ranking.snapshot_id, STATUS, ranking.policy, candidates, page))
