"""Settings: what wins over what, what is refused and how, and what assembly makes of providers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine, Engine, parts
from edgewise import settings as settings_module
from edgewise.calibrations import find_calibration
from edgewise.cloud.provider import ProviderConfig
from edgewise.decide.calibration import CHAT
from edgewise.errors import SettingsError
from edgewise.settings import (
    EngineOptions,
    KeySettings,
    ProviderSettings,
    ServerSettings,
    Settings,
    SettingsOptions,
    default_threads,
)
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Task


@pytest.fixture(autouse=True)
def no_config_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tests below pass an empty environment, and then the user's folders are looked at."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("EDGEWISE_BUDGET", "EDGEWISE_BUDGETS"),
        ("EDGEWISE_POLCY", "EDGEWISE_POLICY"),
        ("EDGEWISE_SERVER_PROT", "EDGEWISE_SERVER_PORT"),
        ("EDGEWISE_OPENAI_MODEL", ""),
        ("EDGEWISE_OLLAMA_BASE_URL", ""),
        ("EDGEWISE_SOMETHING", ""),
    ],
)
def test_a_misspelt_variable_is_named_once(
    name: str, meant: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "_told", set())
    for _ in range(2):
        Settings.load({name: "1"})
    said = [f"{name} is not read; did you mean {meant}?"] if meant else []
    assert caplog.messages == said


def test_a_key_given_as_a_setting_is_told_where_keys_belong() -> None:
    with pytest.raises(SettingsError, match="'api_key': a provider's key comes from its variable"):
        Engine(api_key="x")  # type: ignore[call-arg]


def write_config(home: Path, text: str) -> dict[str, str]:
    """A home with a config.toml in it, as an environment that points there."""
    folder = home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text, "utf-8")
    return {"EDGEWISE_HOME": str(home)}


def chain_of(settings: Settings) -> list[str]:
    return [f"{config.name}/{config.model}" for config in parts.provider_configs(settings)]


def lanes_of(settings: Settings) -> list[ProviderConfig]:
    ledger = parts.open_ledger(settings)
    return [lane.config for lane in parts.open_door(settings, ledger).lanes]


# -- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kinds"),
    [("all", ("ALL",)), ("email, card", ("EMAIL", "CARD")), ("no", ()), (True, ("ALL",))],
)
def test_kinds_are_read_from_a_word_a_list_or_true(value: Any, kinds: tuple[str, ...]) -> None:
    assert Settings.load(redact=value).redact == kinds
    if isinstance(value, str):
        assert Settings.load({"EDGEWISE_PRIVATE_KINDS": value}).private_kinds == kinds


def test_a_word_that_is_no_kind_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"redact = 'e-mail': not true, or a list of kinds"):
        Settings.load(redact="e-mail")


@pytest.mark.parametrize(
    ("value", "intervals"),
    [(30, ("30",)), ("30", ("30",)), ("5, app: 60", ("5", "app: 60")), (["0.5"], ("0.5",))],
)
def test_times_between_handoffs_are_a_number_or_a_list(
    value: Any, intervals: tuple[str, ...]
) -> None:
    assert Settings.load(cloud_every_s=value).cloud_every_s == intervals


def test_the_last_one_wins_default_file_environment_argument(tmp_path: Path) -> None:
    assert Settings.load({}).max_tokens is None
    environment = write_config(tmp_path, 'max_tokens = 11\npolicy = "local_only"')
    assert Settings.load(environment).max_tokens == 11
    environment["EDGEWISE_MAX_TOKENS"] = "22"
    assert Settings.load(environment).max_tokens == 22
    chosen = Settings.load(environment, max_tokens=33)
    assert (chosen.max_tokens, chosen.policy) == (33, "local_only")


def test_settings_know_which_of_them_somebody_named(tmp_path: Path) -> None:
    environment = write_config(tmp_path, "threads = 3") | {"EDGEWISE_MODEL": "tiny"}
    chosen = Settings.load(environment, policy="local_only")
    assert {"threads", "model", "policy"} <= chosen.named
    assert "max_tokens" not in chosen.named
    assert "max_tokens" in chosen.with_changes(max_tokens=9).named
    assert "model" not in Settings.load({"EDGEWISE_HOME": str(tmp_path)}).named


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'model = "standard"\n'),
        ("threads = 3\n", 'model = "standard"\nthreads = 3\n'),
        (
            "# mine\nthreads = 3\nmodel = 'tiny'  # for now\n[server]\nport = 1\n",
            '# mine\nthreads = 3\nmodel = "standard"  # for now\n[server]\nport = 1\n',
        ),
        (
            '[providers.a]\nmodel = "theirs"\n',
            'model = "standard"\n[providers.a]\nmodel = "theirs"\n',
        ),
    ],
)
def test_a_choice_is_remembered_and_the_rest_of_the_file_stays(
    tmp_path: Path, before: str, after: str
) -> None:
    chosen = Settings.load(write_config(tmp_path, before))
    chosen.file.chmod(0o600)
    chosen.remember("model", "standard")
    assert chosen.file.read_text("utf-8") == after
    assert chosen.file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in chosen.file.parent.iterdir()] == ["config.toml"]
    assert Settings.load({"EDGEWISE_HOME": str(tmp_path)}).model == "standard"


def test_a_choice_is_remembered_where_there_was_no_file_and_through_a_link(tmp_path: Path) -> None:
    chosen = Settings.load({"EDGEWISE_HOME": str(tmp_path / "home")})
    chosen.remember("model", "tiny")
    assert chosen.file.read_text("utf-8") == 'model = "tiny"\n'
    mine = tmp_path / "dotfiles.toml"
    chosen.file.replace(mine)
    chosen.file.symlink_to(mine)
    chosen.remember("model", "/a/b c.gguf")
    assert chosen.file.is_symlink()
    assert mine.read_text("utf-8") == 'model = "/a/b c.gguf"\n'


@pytest.mark.parametrize(
    "text",
    [
        "threads = ",
        'budgets = [\n  """\nmodel = "x"\n""",\n]\n',
        '"model" = "tiny"\n',
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(tmp_path: Path, text: str) -> None:
    write_config(tmp_path, text)
    chosen = Settings(config_dir=tmp_path / "config")
    with pytest.raises(SettingsError, match=r"config\.toml"):
        chosen.remember("model", "standard")
    assert chosen.file.read_text("utf-8") == text


def test_an_empty_variable_is_a_variable_that_is_not_set(tmp_path: Path) -> None:
    environment = write_config(tmp_path, "threads = 3")
    chosen = Settings.load(environment | {"EDGEWISE_THREADS": "", "EDGEWISE_CONFIG_DIR": ""})
    assert chosen.threads == 3


def test_the_real_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_POLICY", "cloud_only")
    assert Settings.load().policy == "cloud_only"
    assert Settings().policy == "prefer_local", "without load() nothing is read"


def test_a_home_moves_all_three_folders(tmp_path: Path) -> None:
    chosen = Settings.load({"EDGEWISE_HOME": str(tmp_path)})
    assert chosen.data_dir == tmp_path / "data"
    assert chosen.ledger_path == tmp_path / "data" / "ledger.sqlite3"
    assert chosen.models_dir == tmp_path / "cache" / "models"
    assert chosen.config_dir == tmp_path / "config"


def test_one_folder_can_be_moved_out_of_a_home(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    environment = {"EDGEWISE_HOME": str(tmp_path), "EDGEWISE_CACHE_DIR": str(elsewhere)}
    chosen = Settings.load(environment)
    assert (chosen.cache_dir, chosen.data_dir) == (elsewhere, tmp_path / "data")


def test_a_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write_config(tmp_path, "max_tokens = 5")
    chosen = Settings.load({"EDGEWISE_CONFIG_DIR": "~/config", "EDGEWISE_DATA_DIR": "~/data"})
    assert (chosen.max_tokens, chosen.data_dir) == (5, tmp_path / "data")
    assert Settings.load({}, config_dir="~/config").max_tokens == 5


def test_every_field_but_the_tables_can_come_from_the_environment() -> None:
    texts = {
        "int": "7",
        "int | None": "7",
        "float": "7",
        "error_probability": "0.2",
        "float | None": "0.5",
        "Handoff": "signal",
        "OnDrift": "cloud",
        "audit_share": "0.5",
        "gpu": "off",
        "openvino_device": "CPU",
        "backend": "ray",
        "policy": "local_only",
        "chain": "openai",
        "finders": "presidio",
        "redact": "EMAIL",
        "private_kinds": "EMAIL",
        "budgets": "$1/day",
        "audit_budget": "$1/day",
        "cloud_every_s": "30",
        "store_away_allowance": "$1",
    }
    defaults = Settings()
    for each in fields(Settings):
        if each.name in ("models", "providers", "server", "environment", "named"):
            continue
        default = getattr(defaults, each.name)
        opposite = "no" if default is True else "yes"
        text = opposite if each.type == "bool" else texts.get(str(each.type), "word")
        text = texts.get(each.name, text)
        chosen = Settings.load({f"EDGEWISE_{each.name.upper()}": text})
        assert getattr(chosen, each.name) != default, each.name


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("threads", "two", "a whole number"),
        ("threads", 2.5, "a whole number"),
        ("threads", True, "a whole number"),
        ("threads", "0", "at least 1"),
        ("context_tokens", "-1", "0 or more"),
        ("context_tokens", float("inf"), "a whole number"),
        ("max_tokens", "0", "at least 1"),
        ("threshold", "high", "a number"),
        ("threshold", "1.5", "between 0 and 1"),
        ("threshold", "nan", "a number"),
        ("handoff", "maybe", "automatic or signal"),
        ("connect_s", "0", "more than 0 seconds"),
        ("first_token_s", "-1", "more than 0 seconds"),
        ("total_s", "inf", "a number"),
        ("patience_s", "soon", "a number"),
        ("cooldown_s", [], "a number"),
        ("store_text", "perhaps", "true or false"),
        ("policy", 5, "text"),
        ("model", ["a"], "text"),
        ("chain", 5, "a list of texts"),
        ("chain", [5], "a list of texts"),
        ("budgets", [1.0], "a list of texts"),
        ("data_dir", 5, "a path"),
        ("providers", "openai", "a table"),
        ("models", {"gpt-4o": 5}, "5 is not the name of a model"),
        ("call_tools", "0", "at least 1"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(SettingsError, match=wanted) as caught:
        Settings.load({}, **{name: value})
    assert str(caught.value).startswith((f"{name} = ", f"[{name}]: "))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"modell": "tiny"}, "there is no setting 'modell'; did you mean 'model'?"),
        ({"threads": "two"}, "threads = 'two': not a whole number"),
        ({"budgets": ["1/day"]}, r"cannot read the budget '1/day': .*; did you mean '\$1/day'?"),
        ({"audit_budget": "lots"}, "cannot read the budget 'lots'"),
        ({"store_away_allowance": "lots"}, "store_away_allowance = 'lots'"),
        ({"cloud_every_s": ["task chatt: 5"]}, "cloud_every_s = 'task chatt: 5'"),
        ({"policy": "locl"}, "policy = 'locl': .* did you mean 'local_only'?"),
        ({"backend": "llama"}, "backend = 'llama': .* did you mean 'llama_cpp'?"),
        ({"chain": ["opnai"]}, "unknown cloud provider 'opnai'. Did you mean 'openai'?"),
        ({"redact": ["EMIAL"]}, "redact: nothing here finds 'EMIAL'; did you mean 'EMAIL'?"),
        ({"private_kinds": ["CRAD"]}, "private_kinds: .* did you mean 'CARD'?"),
        ({"finders": ["persidio"]}, "finders = 'persidio': .* did you mean 'presidio'?"),
        (
            {"providers": {"mine": ProviderSettings(protocol="opnai")}},
            r"\[providers.mine\]: protocol = 'opnai': .* did you mean 'openai'?",
        ),
    ],
)
def test_every_door_to_the_settings_refuses_what_is_wrong_at_once(
    given: dict[str, Any], words: str
) -> None:
    doors: tuple[Callable[..., Any], ...] = (
        Settings, Settings.load, Settings().with_changes, Engine, AsyncEngine
    )  # fmt: skip
    for door in doors:
        with pytest.raises(SettingsError, match=words):
            door(**given)


def test_values_given_in_code_are_read_like_those_of_the_file(tmp_path: Path) -> None:
    chosen = Settings(budgets="$1/day, app: $2/day", data_dir=str(tmp_path))  # type: ignore[arg-type]
    assert chosen.budgets == ("$1/day", "app: $2/day") and chosen.data_dir == tmp_path
    assert pickle.loads(pickle.dumps(chosen)) == chosen


def test_an_engine_takes_every_setting_by_its_name(tmp_path: Path) -> None:
    with Engine(model="standard", policy="local_only", budgets=["$1/day"]) as engine:
        chosen = engine.settings
        assert (chosen.model, chosen.policy, chosen.budgets) == (
            "standard", "local_only", ("$1/day",)
        )  # fmt: skip
        assert {"model", "policy", "budgets"} <= chosen.named
    asynchronous = AsyncEngine(Settings.load({}, max_tokens=5), policy="local_only")
    chosen = asynchronous.engine.settings
    assert (chosen.max_tokens, chosen.policy) == (5, "local_only")


def test_what_is_also_the_name_of_a_part_is_the_setting_if_it_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.sqlite3"
    with Engine(ledger=str(file), function_model="standard", backend="llama_cpp") as engine:
        assert engine.settings.ledger_path == file
        assert engine.settings.function_model == "standard"


def test_the_typed_keyword_arguments_are_the_settings() -> None:
    typed = {*SettingsOptions.__annotations__}
    assert typed == {each.name for each in fields(Settings)} - {"environment", "named"}
    assert typed - {*EngineOptions.__annotations__} == {"backend", "function_model", "ledger"}


def test_an_engine_says_what_it_is() -> None:
    keyed = Settings.load({"OPENAI_API_KEY": "k"}, model="standard")
    said = repr(Engine(keyed))
    assert said == "<Engine qwen2.5-coder-1.5b-instruct, prefer_local, cloud openai>"
    scripted = Engine(
        Settings.load({}), backend=ScriptedBackend.confident("Yes."), policy="local_only"
    )
    assert repr(scripted) == "<Engine scripted-1, local_only, no cloud has a key>"
    assert repr(AsyncEngine(keyed)).startswith("<AsyncEngine qwen2.5-coder-1.5b-instruct, ")


def test_a_bad_variable_is_refused_like_any_other_value() -> None:
    with pytest.raises(SettingsError, match="threads = 'many': not a whole number"):
        Settings.load({"EDGEWISE_THREADS": "many"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('polcy = "local_only"', "there is no setting 'polcy'; did you mean 'policy'"),
        ('environment = { A = "b" }', "there is no setting 'environment'"),
        ("max_tokens = ", "config.toml"),
        ('[providers.mine]\nkey = "sk-secret"', r"\[providers.mine\]: unknown setting 'key'"),
        ("[providers.mine]\nbase_url = 5", "base_url must be text"),
        ('[providers.mine]\nneeds_key = "no"', "needs_key must be true or false"),
        ("[providers]\nmine = 5", r"\[providers.mine\]: not a table"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as caught:
        Settings.load(write_config(tmp_path, text))
    assert "sk-secret" not in str(caught.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    environment = write_config(tmp_path, "")
    (tmp_path / "config" / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"config\.toml"):
        Settings.load(environment)


def test_settings_do_not_change_once_made() -> None:
    chosen = Settings()
    with pytest.raises(FrozenInstanceError):
        chosen.policy = "cloud_only"  # type: ignore[misc]
    changed = chosen.with_changes(policy="cloud_only", threads="3")  # type: ignore[arg-type]
    assert (changed.policy, changed.threads, chosen.policy) == ("cloud_only", 3, "prefer_local")
    with pytest.raises(SettingsError, match="threads"):
        chosen.with_changes(threads="none")  # type: ignore[arg-type]


def test_half_the_cores_and_at_least_one_is_the_default() -> None:
    assert [default_threads(cores) for cores in (1, 2, 3, 8)] == [1, 1, 1, 4]


def test_keys_are_in_no_representation() -> None:
    chosen = Settings.load({"OPENAI_API_KEY": "sk-do-not-show"})
    (config,) = parts.provider_configs(chosen)
    assert config.key == "sk-do-not-show"
    for shown in (repr(chosen), str(chosen), repr(config), str(config), f"{[config]}"):
        assert "do-not-show" not in shown


# -- providers --------------------------------------------------------------------------------

KEYS = {"OPENAI_API_KEY": "k1", "GEMINI_API_KEY": "k2"}


def test_without_a_chain_every_provider_with_a_key_is_tried_in_the_directorys_order() -> None:
    assert chain_of(Settings.load(KEYS)) == ["gemini/gemini-2.5-flash-lite", "openai/gpt-6-luna"]
    assert chain_of(Settings.load({})) == []


def test_a_chain_is_an_order_and_may_name_models() -> None:
    chosen = Settings.load(KEYS | {"EDGEWISE_CHAIN": "openai/gpt-x/preview, gemini,"})
    assert chosen.chain == ("openai/gpt-x/preview", "gemini")
    assert chain_of(chosen) == ["openai/gpt-x/preview", "gemini/gemini-2.5-flash-lite"]


def test_a_chain_is_a_list_in_the_file(tmp_path: Path) -> None:
    environment = write_config(tmp_path, 'chain = ["openai", "gemini/other"]')
    assert chain_of(Settings.load(KEYS | environment)) == ["openai/gpt-6-luna", "gemini/other"]


def test_a_provider_without_its_key_is_left_out_of_the_door() -> None:
    chosen = Settings.load({"OPENAI_API_KEY": "k", "EDGEWISE_CHAIN": "gemini,openai"})
    assert [config.name for config in lanes_of(chosen)] == ["openai"]


def test_an_unknown_provider_in_the_chain_gets_a_hint() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'openai'"):
        chain_of(Settings.load({"EDGEWISE_CHAIN": "openia"}))


def test_a_model_named_in_the_chain_wins_over_the_variable() -> None:
    variables = KEYS | {"EDGEWISE_OPENAI_MODEL": "gpt-mine"}
    assert chain_of(Settings.load(variables, chain=["openai"])) == ["openai/gpt-mine"]
    assert chain_of(Settings.load(variables, chain=["openai/gpt-x"])) == ["openai/gpt-x"]


def test_a_server_on_ones_own_network_needs_a_model_and_no_key() -> None:
    with pytest.raises(SettingsError, match="ollama/MODEL"):
        chain_of(Settings.load({}, chain=["ollama"]))
    for chosen in (
        Settings.load({}, chain=["ollama/llama3.2"]),
        Settings.load({"EDGEWISE_OLLAMA_MODEL": "llama3.2"}, chain=["ollama"]),
        Settings.load({}, chain=["ollama"], providers={"ollama": {"model": "llama3.2"}}),
    ):
        assert [config.model for config in lanes_of(chosen)] == ["llama3.2"]


def test_base_urls_can_be_moved_by_our_variable_or_the_vendors() -> None:
    vendors = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://one.example/v1"}
    (config,) = parts.provider_configs(Settings.load(vendors))
    assert config.base_url == "https://one.example/v1"
    both = vendors | {"EDGEWISE_OPENAI_BASE_URL": "https://two.example/v1"}
    (config,) = parts.provider_configs(Settings.load(both))
    assert config.base_url == "https://two.example/v1"


def test_a_table_makes_a_new_provider(tmp_path: Path) -> None:
    environment = write_config(
        tmp_path,
        'chain = ["my-gateway"]\n'
        "[providers.my-gateway]\n"
        'base_url = "https://models.example/v1"\nmodel = "large"\nkey_env = "GATEWAY_KEY"\n',
    )
    assert lanes_of(Settings.load(environment)) == [], "it names a variable, so it needs a key"
    (config,) = lanes_of(Settings.load(environment | {"GATEWAY_KEY": "k"}))
    assert (config.name, config.protocol, config.model) == ("my-gateway", "openai", "large")
    moved = {"GATEWAY_KEY": "k", "EDGEWISE_MY_GATEWAY_BASE_URL": "https://other.example/v1"}
    (config,) = lanes_of(Settings.load(environment | moved))
    assert config.base_url == "https://other.example/v1"


def test_a_table_changes_a_known_provider_and_leaves_the_rest_of_it() -> None:
    chosen = Settings.load(KEYS, providers={"gemini": {"model": "gemini-other"}})
    gemini = next(iter(parts.provider_configs(chosen)))
    assert (gemini.model, gemini.protocol) == ("gemini-other", "gemini")
    assert gemini.base_url == "https://generativelanguage.googleapis.com"


def models_for(settings: Settings, task: Task) -> list[str]:
    configs = parts.provider_configs(settings, task)
    return [f"{config.name}/{config.model}" for config in configs]


def test_speech_and_embeddings_have_models_of_their_own() -> None:
    chosen = Settings.load(KEYS | {"ANTHROPIC_API_KEY": "k", "GROQ_API_KEY": "k"})
    assert models_for(chosen, "transcribe") == [
        "gemini/gemini-2.5-flash-lite",
        "openai/gpt-transcribe",
        "groq/whisper-large-v3-turbo",
    ]
    assert models_for(chosen, "embed") == [
        "gemini/gemini-embedding-001",
        "openai/text-embedding-3-small",
    ]
    assert len(models_for(chosen, "call")) == 4


def test_a_variable_wins_over_a_table_and_a_table_over_the_row() -> None:
    tables = {"openai": {"speech_model": "whisper-1", "embedding_model": "text-embedding-3-large"}}
    chosen = Settings.load(KEYS, chain=["openai"], providers=tables)
    assert models_for(chosen, "transcribe") == ["openai/whisper-1"]
    assert models_for(chosen, "embed") == ["openai/text-embedding-3-large"]
    variables = {"EDGEWISE_OPENAI_SPEECH_MODEL": "a", "EDGEWISE_OPENAI_EMBEDDING_MODEL": "b"}
    chosen = Settings.load(KEYS | variables, chain=["openai"], providers=tables)
    assert (models_for(chosen, "transcribe"), models_for(chosen, "embed")) == (
        ["openai/a"],
        ["openai/b"],
    )
    assert models_for(chosen, "chat") == ["openai/gpt-6-luna"]


def test_whoever_has_a_wire_for_decisions_is_asked_before_a_chat_model() -> None:
    keys = KEYS | {"TYPESAFE_API_KEY": "k"}
    chosen = Settings.load(keys)
    assert models_for(chosen, "decide") == [
        "openai/gpt-6-luna",
        "typesafe/jev-latest",
        "gemini/gemini-2.5-flash-lite",
    ]
    assert [config.protocol for config in parts.provider_configs(chosen, "decide")] == [
        "decisions",
        "systemone",
        "gemini",
    ]
    assert "typesafe/jev-latest" not in models_for(chosen, "chat"), "it decides, and nothing else"
    chosen = Settings.load(keys, chain=["gemini", "typesafe/jev-1.14.0"])
    assert models_for(chosen, "decide") == ["typesafe/jev-1.14.0", "gemini/gemini-2.5-flash-lite"]
    assert models_for(chosen, "chat") == ["gemini/gemini-2.5-flash-lite"]


def test_a_provider_of_ones_own_can_have_a_wire_for_decisions() -> None:
    proxy = {"base_url": "http://127.0.0.1:9/v1", "model": "chats", "decision_model": "decides"}
    tables = {
        "proxy": {**proxy, "decisions": "systemone"},
        "laya": {"base_url": "http://127.0.0.1:9/v1", "model": "laya", "protocol": "systemone"},
    }
    chosen = Settings.load({}, chain=["proxy", "laya"], providers=tables)
    assert models_for(chosen, "decide") == ["proxy/decides", "laya/laya"]
    assert models_for(chosen, "chat") == ["proxy/chats"]
    wrong = Settings.load({}, chain=["proxy"], providers={"proxy": {**proxy, "decisions": "jev"}})
    with pytest.raises(SettingsError, match=r"\[providers.proxy\]: decisions = 'jev'"):
        models_for(wrong, "decide")


def test_a_table_that_says_nothing_of_speech_keeps_the_rows_models() -> None:
    chosen = Settings.load(KEYS, chain=["openai"], providers={"openai": {"model": "gpt-mine"}})
    assert models_for(chosen, "transcribe") == ["openai/gpt-transcribe"]


def test_two_chat_models_of_a_provider_are_one_lane_for_speech() -> None:
    chosen = Settings.load(KEYS, chain=["openai/gpt-x", "gemini", "openai"])
    assert models_for(chosen, "transcribe") == [
        "openai/gpt-transcribe",
        "gemini/gemini-2.5-flash-lite",
    ]


def test_the_users_own_server_may_only_transcribe() -> None:
    transcriber = {"base_url": "http://127.0.0.1:9000/v1", "speech_model": "whisper-large"}
    chosen = Settings.load(KEYS, chain=["gemini", "ears"], providers={"ears": transcriber})
    assert models_for(chosen, "chat") == ["gemini/gemini-2.5-flash-lite"]
    assert models_for(chosen, "transcribe")[-1] == "ears/whisper-large"
    assert models_for(chosen, "embed") == ["gemini/gemini-embedding-001"]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"base_url": "models.example", "model": "m"}, "http:// or https://"),
        (
            {"base_url": "https://a.example", "protocol": "soap", "model": "m"},
            "there is no such protocol",
        ),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parts.provider_rows(Settings.load({}, providers={"mine": table}))


def test_provider_tables_may_be_given_as_values() -> None:
    mine = ProviderSettings(base_url="http://127.0.0.1:9/v1", model="m")
    (config,) = lanes_of(Settings.load({}, providers={"mine": mine}, chain=["mine"]))
    assert (config.name, config.key) == ("mine", "")


# -- budgets ----------------------------------------------------------------------------------


def test_budgets_are_for_everyone_or_for_a_key(tmp_path: Path) -> None:
    environment = write_config(tmp_path, 'budgets = ["$3/day", "app: $0.50/month"]')
    ledger = parts.open_ledger(Settings.load(environment))
    budgets = [state.budget for state in ledger.remaining()]
    assert [(each.limit_microdollars, each.window, each.key) for each in budgets] == [
        (3_000_000, "day", ""),
        (500_000, "month", "app"),
    ]
    ledger.close()


def test_a_budget_that_cannot_be_read_is_refused_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match="'a lot'"):
        parts.open_ledger(Settings.load({"EDGEWISE_BUDGETS": "a lot"}))


# -- calibration ------------------------------------------------------------------------------


def test_a_calibration_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    chosen = Settings.load({}, calibration=str(tmp_path / "none.json"))
    with pytest.raises(SettingsError, match=r"none\.json"):
        find_calibration(chosen, "", CHAT)


def test_audits_have_a_budget_and_a_share_of_their_own() -> None:
    assert (Settings.load({}).audit_share, Settings.load({}).audit_budget) == (0.0, "")
    ledger = parts.open_ledger(Settings.load({"EDGEWISE_AUDIT_BUDGET": "$0.50/day"}))
    assert [state.budget.key for state in ledger.remaining()] == ["audit"]
    ledger.close()
    with pytest.raises(SettingsError, match=r"audit_share = 1\.5: must be between 0 and 1"):
        Settings.load({"EDGEWISE_AUDIT_SHARE": "1.5"})
    with pytest.raises(SettingsError, match="cannot read the budget 'some'"):
        parts.open_ledger(Settings.load({"EDGEWISE_AUDIT_BUDGET": "some"}))


def read_server(table: Any) -> ServerSettings:
    return Settings.load({}, server=table).server


def test_variables_of_the_server_win_over_its_table(tmp_path: Path) -> None:
    environment = write_config(
        tmp_path, '[server]\nhost = "10.0.0.1"\nport = 9000\nkey = "in-the-file"\nslots = 2'
    )
    environment |= {
        "EDGEWISE_SERVER_HOST": "0.0.0.0",
        "EDGEWISE_SERVER_KEY": " from-the-environment ",
        "EDGEWISE_SERVER_HOSTS": "host.docker.internal, box.example",
        "EDGEWISE_SERVER_ANY_MODEL": "no",
        "EDGEWISE_SERVER_TOTAL_S": "5.5",
        "EDGEWISE_SERVER_QUEUE": "",
    }
    read = Settings.load(environment).server
    assert (read.host, read.port, read.key) == ("0.0.0.0", 9000, "from-the-environment")
    assert read.hosts == ("host.docker.internal", "box.example")
    assert (read.any_model, read.total_s, read.slots, read.queue) == (False, 5.5, 2, 64)
    assert Settings.load(environment, server={"port": 1}).server.host == "127.0.0.1"


@pytest.mark.parametrize("field", [each for each in fields(ServerSettings) if each.name != "keys"])
def test_every_field_of_the_server_has_a_variable(field: Any) -> None:
    values = {"str": "box", "int": "7", "float": "7.5", "bool": "true", "tuple[str, ...]": "a,b"}
    expected = {"str": "box", "int": 7, "float": 7.5, "bool": True, "tuple[str, ...]": ("a", "b")}
    if field.name == "log_format":  # one of three words
        values["str"] = expected["str"] = "json"
    read = Settings.load({f"EDGEWISE_SERVER_{field.name.upper()}": values[field.type]}).server
    assert getattr(read, field.name) == expected[field.type]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "high", "EDGEWISE_SERVER_PORT = 'high': not a whole number"),
        ("PORT", "70000", "port = 70000"),
        ("LOG_FORMAT", "xml", "log_format = 'xml': one of auto, text, json"),
        ("ANY_MODEL", "perhaps", "EDGEWISE_SERVER_ANY_MODEL"),
    ],
)
def test_a_wrong_variable_of_the_server_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.load({f"EDGEWISE_SERVER_{name}": value})


def test_the_server_table_changes_what_it_names() -> None:
    read = read_server({"port": 9000, "total_s": 5, "hosts": ["box.example"]})
    assert (read.port, read.total_s, read.hosts) == (9000, 5.0, ("box.example",))
    assert read.host == "127.0.0.1"
    assert read_server(read) is read


def test_keys_are_tables_of_their_own() -> None:
    read = read_server({"keys": {"app": {"key_env": "APP_KEY", "requests_per_minute": 5}}})
    assert read.keys == {"app": KeySettings(key_env="APP_KEY", requests_per_minute=5)}


def test_settings_take_the_table_from_code_and_file() -> None:
    assert Settings.load({}, server={"port": 1}).server.port == 1
    assert Settings().with_changes(server=ServerSettings(port=2)).server.port == 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (5, r"\[server\]: not a table"),
        ({"prot": 5}, "unknown setting 'prot'; did you mean 'port'?"),
        ({"port": "x"}, "port must be a whole number"),
        ({"port": True}, "port must be a whole number"),
        ({"port": 70000}, "port = 70000"),
        ({"host": 5}, "host must be text"),
        ({"any_model": 1}, "any_model must be true or false"),
        ({"drain_s": "x"}, "drain_s must be a number"),
        ({"drain_s": 0}, "drain_s = 0"),
        ({"slots": 0}, "slots = 0"),
        ({"hosts": "box"}, "hosts must be a list of texts"),
        ({"hosts": [5]}, "hosts must be a list of texts"),
        ({"keys": []}, r"\[server.keys\]: not a table"),
        ({"keys": {"app": "x"}}, r"\[server.keys.app\]: not a table"),
        ({"keys": {"app": {}}}, r"\[server.keys.app\]: either key_env or key_sha256"),
        ({"keys": {"app": {"key_sha256": "abc"}}}, "64 hexadecimal digits"),
        ({"keys": {"app": {"key_env": "A", "requests_per_minute": -1}}}, "0 or more"),
    ],
)
def test_what_is_wrong_in_the_server_table_is_named(table: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_server(table)


def test_no_message_and_no_repr_quotes_a_key() -> None:
    with pytest.raises(SettingsError) as caught:
        read_server({"keys": {"app": {"key": "sk-very-secret"}}})
    assert "very-secret" not in str(caught.value)
    assert "very-secret" not in repr(ServerSettings(key="sk-very-secret"))


def test_an_env_file_is_read_where_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "project.env"
    file.write_text("OPENAI_API_KEY=sk-from-file\nexport EDGEWISE_MAX_TOKENS='12'\n# a note\n")
    loaded = Settings.load({}, env_file=file)
    assert loaded.max_tokens == 12
    assert loaded.environment["OPENAI_API_KEY"] == "sk-from-file"
    assert Settings.load({"EDGEWISE_ENV_FILE": str(file)}).max_tokens == 12
    both = {"EDGEWISE_ENV_FILE": str(file), "EDGEWISE_MAX_TOKENS": "13"}
    assert Settings.load(both).max_tokens == 13, "the environment comes before the file"


def test_the_env_file_beside_the_config_is_read_by_itself(tmp_path: Path) -> None:
    environment = write_config(tmp_path, "max_tokens = 11")
    (tmp_path / "config" / ".env").write_text("EDGEWISE_MAX_TOKENS=14")
    assert Settings.load(environment).max_tokens == 14


def test_the_current_folders_env_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a folder that somebody else wrote could send requests and keys to its own host."""
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://elsewhere.example\n")
    monkeypatch.chdir(tmp_path)
    assert "OPENAI_BASE_URL" not in Settings.load({}).environment


def test_an_env_file_that_is_named_and_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no such \.env file"):
        Settings.load({"EDGEWISE_ENV_FILE": str(tmp_path / "none.env")})


def test_an_env_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "broken.env"
    file.write_bytes(b"A=\xff\xfe")
    with pytest.raises(SettingsError, match="broken"):
        Settings.load({}, env_file=file)


def test_an_old_name_is_still_read(tmp_path: Path) -> None:
    environment = write_config(tmp_path, 'caller_model = "a"')
    assert Settings.load(environment).function_model == "a"
    assert Settings.load(environment | {"EDGEWISE_CALLER_MODEL": "b"}).function_model == "b"
    assert Settings.load(environment | {"EDGEWISE_FUNCTION_MODEL": "c"}).function_model == "c"


def test_a_file_with_settings_of_steps_that_are_gone_is_still_read(tmp_path: Path) -> None:
    text = "call_easy = 0.2\ncall_hard = 0.5\ncall_tools = 7\n[difficulty]\nboundaries = 2"
    assert Settings.load(write_config(tmp_path, text)).call_tools == 7
