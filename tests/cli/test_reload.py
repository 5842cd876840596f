"""What SIGHUP says of settings that it does not apply."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

import barrage_server as bs
from barrage_server.cli.serve import reload_access
from barrage_server.cli.settings import ServeSettings, load_settings


def test_sighup_names_the_settings_that_only_a_restart_applies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without their values, at each SIGHUP, and no longer once they are as at the start."""
    config = tmp_path / "barrage.toml"
    table = '[[tables]]\nname = "one"\ncolumns = {n = "int64"}\n'
    whole = f'token = "first"\nfollow_token = "a"\n[limits]\nsubscriptions = 5\n[limits.staging]\nentries = 7\n{table}'
    config.write_text(whole)
    started = load_settings(config, {"port": 0})
    with bs.Server(token="first") as server:

        def told(text: str, after: ServeSettings) -> tuple[ServeSettings, list[str]]:
            config.write_text(text)
            caplog.clear()
            found = reload_access(server, started, after, config, {"port": 0})
            return found, [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

        only = "these settings have changed, and only a restart applies them: "
        applied, texts = told(whole.replace("first", "second"), started)
        assert texts == []
        assert applied.accepted_tokens == ("second",)
        more = f"fsync = 'os'\nlog_level = 'debug'\n{whole}".replace('"a"', '"b"').replace("= 5", "= 6")
        more = more.replace("= 7", "= 8").replace("int64", "int32")
        for _ in range(2):
            applied, texts = told(more, applied)
            names = "fsync, log_level, limits.subscriptions, limits.staging.entries, tables, follow_token"
            assert texts == [only + names]
        assert told(whole, applied)[1] == []


def test_sighup_names_a_certificate_that_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And ``default_roles`` without credentials, with which alone SIGHUP applies them."""
    config = tmp_path / "barrage.toml"
    pem = trustme.CA().issue_cert("localhost")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    pem.cert_chain_pems[0].write_to_path(str(chain))
    pem.private_key_pem.write_to_path(str(key))
    roles = '[roles.r]\ntables = ["*"]\nrights = ["read"]\n'
    config.write_text(f'tls_certificate = "{chain}"\ntls_key = "{key}"\n{roles}')
    started = load_settings(config, {})
    with bs.Server(tls_certificate=chain, tls_key=key, roles=started.access_roles()) as server:
        config.write_text(f'default_roles = ["r"]\n{roles}')
        reload_access(server, started, started, config, {})
    assert caplog.messages[-1].endswith("only a restart applies them: default_roles, tls_certificate, tls_key")
