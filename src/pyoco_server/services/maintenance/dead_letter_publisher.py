"""The way a dead letter is written: without trouble for whoever writes it."""

from __future__ import annotations

import logging

from pyoco_server.errors import DeadLetterFailed, PyocoError
from pyoco_server.services.context import Stores
from pyoco_server.stores import DeadLetter

logger = logging.getLogger(__name__)

INVALID_JOB = "invalid_job"
MAX_DELIVER = "max_deliver"


async def publish_dead_letter(stores: Stores, letter: DeadLetter) -> None:
    """Write a letter; one that cannot be written is logged and no more: the truth about the run is in its log."""
    try:
        await stores.dead_letters.publish(letter)
    except PyocoError as error:
        facts: dict[str, object] = {"run_id": letter.run_id, "reason": letter.reason, "error": error.detail}
        ids = {"err_id": DeadLetterFailed.err_id, "msg_id": DeadLetterFailed.msg_id}
        logger.warning(DeadLetterFailed.message(), extra=facts | ids)
