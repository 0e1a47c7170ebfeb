"""The PDCA API: strategies, rechecks and their results."""

from __future__ import annotations

TEXTS = {
    "a strategy id is 1 to {count} of the characters a-z 0-9 . _ -": "strategy id は a-z 0-9 . _ - の 1〜{count} 文字です",
    "there is no request with this id": "この id の request はありません",
}
