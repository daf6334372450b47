"""Keys for LiteLLM's proxy from a file: who may ask, how often, and for how much. Needs no database; what was spent is
forgotten when the proxy ends. `LITELLM_KEYS` names the file (keys.json beside this one):

    {"sk-ann": {"user_id": "ann", "max_budget": 5.0, "rpm_limit": 60},
     "sk-bob": {"user_id": "bob", "max_budget": 0.5, "tpm_limit": 20000}}
"""

import hmac
import json
import os
from pathlib import Path

from fastapi import Request
from litellm.proxy._types import ProxyException, UserAPIKeyAuth

PATH = Path(os.environ.get("LITELLM_KEYS") or Path(__file__).with_name("keys.json"))
KEYS: dict[str, dict[str, float | str]] = json.loads(PATH.read_text())


async def user_api_key_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    for key, limits in KEYS.items():
        if hmac.compare_digest(key.encode(), api_key.encode()):
            return UserAPIKeyAuth(api_key=key, **limits)
    raise ProxyException(message="Unknown key.", type="auth_error", param="api_key", code=401)
