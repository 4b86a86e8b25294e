# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab doctor`, on recorded machines."""

import gzip
import json
import lzma
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab.ab import circumstances
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.base.version import __version__
from cpuidle_lab.cli import main
from cpuidle_lab.host import doctor, idle_states
from cpuidle_lab.host.doctor.kernel import NEEDED, NEEDED_ON_X86
from cpuidle_lab.host.machine import Host, parse_version
from cpuidle_lab.host.sysfs import Tree
from tests.unit import recorded


def examine(name: str, directory: Path, kernel: str | None = None) -> dict[str, Finding]:
    machine = Host(Tree(recorded.unfold(name, directory)))
    return {finding.check: finding for finding in doctor.examine(machine, kernel)}


def statuses(findings: dict[str, Finding], status: str) -> set[str]:
    return {name for name, finding in findings.items() if finding.status == status}


INSTALL = f"sudo dkms install cpuidle-lab/{__version__}"

# Machine, what fails there, what warns there.
EXPECTED: list[tuple[str, set[str], set[str]]] = [
    ("debian13", set(), set()),
    (
        "debian12-bare",
        {"headers"},
        {"dkms", "trace-cmd", "debugfs", "tracefs", "module"},
    ),
    (
        "debian11",
        {"kernel", "headers", "CONFIG_KPROBES"},
        {"CONFIG_DEBUG_FS", "dkms", "trace-cmd", "debugfs", "tracefs", "module"},
    ),
    ("secure-boot", {"signatures"}, {"lockdown", "module"}),
    ("secure-boot-enrolled", set(), {"lockdown", "module"}),
    ("kvm-guest", set(), {"idle states", "virtualisation"}),
    ("one-state", set(), {"idle states"}),
    ("cpuidle-off", {"cpuidle"}, {"module"}),
    ("poll", set(), {"idle states"}),
]


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


@pytest.mark.parametrize(("name", "fails", "warns"), EXPECTED)
def test_finds_what_is_wrong(name: str, fails: set[str], warns: set[str], tmp_path: Path) -> None:
    findings = examine(name, tmp_path)
    assert statuses(findings, FAIL) == fails
    assert statuses(findings, WARN) == warns


def test_every_recorded_machine_is_expected() -> None:
    assert {name for name, _, _ in EXPECTED} == set(recorded.NAMES)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_whatever_is_not_ok_has_a_remedy(name: str, tmp_path: Path) -> None:
    for finding in examine(name, tmp_path).values():
        assert bool(finding.remedy) == (finding.status != OK), finding


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("debian12-bare", "headers", "apt install linux-headers-6.1.0-50-amd64"),
        ("debian11", "headers", "install the headers that were made with this kernel"),
        ("debian11", "kernel", "boot Linux 6.1 or newer"),
        ("debian12-bare", "trace-cmd", "apt install trace-cmd"),
        ("debian11", "trace-cmd", "install a newer trace-cmd"),
        ("secure-boot", "signatures", "mokutil --import /var/lib/dkms/mok.pub"),
        ("secure-boot", "lockdown", "/sys/module/cpuidle_lab/parameters"),
        ("kvm-guest", "idle states", "modprobe cpuidle_emul machine="),
        ("cpuidle-off", "cpuidle", "remove cpuidle.off=1"),
        ("poll", "idle states", "remove idle=poll"),
        ("debian12-bare", "debugfs", "mount -t debugfs debugfs /sys/kernel/debug"),
    ],
)
def test_remedies_name_the_command(name: str, check: str, words: str, tmp_path: Path) -> None:
    assert words in examine(name, tmp_path)[check].remedy


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("debian13", "idle states", "intel_idle: POLL 0/0 us, C1 2/2 us, C1E 10/20 us, C6 133/600"),
        ("debian13", "governors", "menu is in use; offered: ladder menu haltpoll teo_ng"),
        ("debian13", "trace-cmd", "3.3.1"),
        ("debian13", "dkms", "3.2.2"),
        ("debian11", "trace-cmd", "2.9.1"),
        ("one-state", "idle states", "acpi_idle: only C1 2/2 us: no governor is ever asked"),
        ("secure-boot", "lockdown", "integrity"),
        ("kvm-guest", "virtualisation", "QEMU"),
    ],
)
def test_says_what_is_there(name: str, check: str, words: str, tmp_path: Path) -> None:
    assert words in examine(name, tmp_path)[check].found


def test_each_table_of_idle_states_is_named_with_its_cpus(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    for cpu, name, disabled in ((1, "C6S", 0), (2, "C6S", 0), (3, "C6S", 1)):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state0"
        folder.mkdir(parents=True)
        for key, value in (("name", name), ("latency", 5), ("residency", 7), ("disable", disabled)):
            (folder / key).write_text(f"{value}\n")
    found = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}["idle states"].found
    assert found.startswith("intel_idle: CPU 0: POLL 0/0 us, C1 2/2 us")
    assert found.endswith("; CPU 1-2: C6S 5/7 us; CPU 3: C6S 5/7 us (disabled)")
    assert circumstances.look(Host(Tree(tmp_path))).idle_states[-1] == (
        "CPU 3: C6S 5/7 us (disabled)"
    )


def test_a_guest_with_emulated_states_is_fine(tmp_path: Path) -> None:
    recorded.unfold("kvm-guest", tmp_path)
    (tmp_path / "sys/devices/system/cpu/cpuidle/current_driver").write_text("cpuidle_emul\n")
    findings = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["virtualisation"].status == OK
    assert not findings["virtualisation"].remedy


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
            b"\6\0\0\0\1",
            "Secure Boot is on",
        ),
        ("sys/module/module/parameters/sig_enforce", b"Y\n", "module.sig_enforce is on"),
        ("sys/kernel/security/lockdown", b"none [integrity] confidentiality\n", "locked down"),
    ],
)
def test_each_demand_for_signatures_counts(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    recorded.unfold("debian12-bare", tmp_path)
    assert _signatures(tmp_path).status == OK
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    finding = _signatures(tmp_path)
    assert finding.status == FAIL
    assert words in finding.found


def test_a_kernel_that_was_built_to_demand_signatures_is_told_apart(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    with (tmp_path / "boot/config-6.12.107+deb13-amd64").open("a") as stream:
        stream.write("CONFIG_MODULE_SIG_FORCE=y\n")
    (tmp_path / "sys/module/cpuidle_lab").rename(tmp_path / "gone")
    finding = _signatures(tmp_path)
    assert finding.status == FAIL
    assert "built to demand them" in finding.found


def test_a_key_that_waits_for_the_reboot_is_not_imported_again(tmp_path: Path) -> None:
    recorded.unfold("secure-boot", tmp_path)
    certificate = tmp_path / "var/lib/dkms/mok.pub"
    certificate.parent.mkdir(parents=True, exist_ok=True)
    certificate.write_bytes(b"0certificate")
    efivars = tmp_path / "sys/firmware/efi/efivars"
    pending = efivars / "MokNew-605dab50-e046-4300-abb6-3dd810dd8b23"
    pending.write_bytes(b"\7\0\0\0another")
    assert "mokutil --import" in _signatures(tmp_path).remedy
    pending.write_bytes(b"\7\0\0\0list0certificate")
    finding = _signatures(tmp_path)
    assert finding.status == FAIL
    assert finding.remedy == "reboot and choose 'Enroll MOK'"


SIGNATURE = b"~Module signature appended~\n"


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("cpuidle_lab.ko", b"\x7fELF" + SIGNATURE, OK),
        ("cpuidle_lab.ko", b"\x7fELF", FAIL),
        ("cpuidle_lab.ko.xz", lzma.compress(b"\x7fELF" + SIGNATURE), OK),
        ("cpuidle_lab.ko.xz", lzma.compress(b"\x7fELF"), FAIL),
        ("cpuidle_lab.ko.xz", b"damaged", FAIL),
        ("cpuidle_lab.ko.zst", b"not to be told", OK),
    ],
)
def test_an_enrolled_key_does_not_help_a_module_without_a_signature(
    name: str, content: bytes, status: str, tmp_path: Path
) -> None:
    recorded.unfold("secure-boot-enrolled", tmp_path)
    kernel = (tmp_path / "proc/sys/kernel/osrelease").read_text().strip()
    folder = tmp_path / "lib/modules" / kernel / "updates/dkms"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("cpuidle_lab.ko*"):
        old.unlink()
    (folder / name).write_bytes(content)
    finding = _signatures(tmp_path)
    assert finding.status == status
    assert ("dkms build --force" in finding.remedy) == (status == FAIL)


def _powercap(root: Path) -> Finding:
    findings = doctor.examine(Host(Tree(root)))
    return next(finding for finding in findings if finding.check == "powercap")


def test_energy_counters_are_listed_or_said_to_be_closed(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    assert (_powercap(tmp_path).status, _powercap(tmp_path).found[:18]) == (
        OK,
        "no energy counters",
    )
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    files = {"name": "package-0", "energy_uj": "5", "max_energy_range_uj": "262143328850"}
    for name, text in files.items():
        (zone / name).write_text(f"{text}\n")
    assert (_powercap(tmp_path).status, _powercap(tmp_path).found) == (OK, "package-0")
    (zone / "energy_uj").unlink()
    (zone / "energy_uj").mkdir()  # cannot be read by root either
    finding = _powercap(tmp_path)
    assert finding.status == WARN
    assert "intel-rapl:0" in finding.found


def test_a_module_that_is_loaded_proves_itself(tmp_path: Path) -> None:
    recorded.unfold("secure-boot", tmp_path)
    (tmp_path / "sys/module/cpuidle_lab").mkdir()
    assert _signatures(tmp_path).status == OK


def test_a_certificate_that_only_root_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_bytes = Tree.read_bytes
    monkeypatch.setattr(
        Tree, "read_bytes", lambda self, name: None if "mok" in name else read_bytes(self, name)
    )
    recorded.unfold("secure-boot", tmp_path)
    finding = _signatures(tmp_path)
    assert finding.status == WARN
    assert "only root can tell" in finding.found


def _signatures(root: Path) -> Finding:
    findings = doctor.examine(Host(Tree(root)))
    return next(finding for finding in findings if finding.check == "signatures")


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ("updates/dkms", "sudo modprobe cpuidle_lab"),
        ("updates", "sudo modprobe cpuidle_lab"),
        (
            "kernel",
            f"in the project's directory: sudo make dkms-sources; {INSTALL}",
        ),
    ],
)
def test_a_module_that_is_only_installed_needs_loading(
    place: str, remedy: str, tmp_path: Path
) -> None:
    recorded.unfold("debian12-bare", tmp_path)
    folder = tmp_path / "lib/modules/6.1.0-50-amd64" / place
    folder.mkdir(parents=True)
    (folder / "cpuidle_lab.ko").touch()
    findings = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["module"].remedy == remedy


def test_disabled_states_are_marked(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    (tmp_path / "sys/devices/system/cpu/cpu0/cpuidle/state3/disable").write_text("1\n")
    findings = doctor.examine(Host(Tree(tmp_path)))
    assert any(finding.found.endswith("C6 133/600 us (disabled)") for finding in findings)


def test_another_kernel_is_judged_by_its_own_files(tmp_path: Path) -> None:
    findings = examine("debian13", tmp_path, "7.2.12+deb13-amd64")
    assert findings["kernel"].status == OK
    assert "not the running one" in findings["kernel"].found
    assert "linux-image-7.2.12+deb13-amd64" in findings["headers"].remedy
    assert findings["config"].status == WARN


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_configuration_may_be_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    recorded.unfold("debian13", tmp_path)
    config = tmp_path / "boot" / "config-6.12.107+deb13-amd64"
    config.write_bytes(config.read_text().encode(encoding))
    found = {f.check: f.status for f in doctor.examine(Host(Tree(tmp_path)))}
    assert found["CONFIG_KPROBES"] == OK and "config" not in found


def test_a_configuration_without_options_is_named(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    config = tmp_path / "boot" / "config-6.12.107+deb13-amd64"
    config.write_bytes(bytes(range(256)))
    found = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}
    assert found["config"].found == f"/boot/{config.name} has no line CONFIG_NAME=VALUE"
    assert found["config"].status == WARN and "CONFIG_KPROBES" not in found


@pytest.mark.parametrize("text", ["-1", "n/a", "1e3", "٣", "9" * 30])
@pytest.mark.parametrize("name", ["latency", "residency"])
def test_a_value_of_a_state_that_cannot_be_is_shown(tmp_path: Path, name: str, text: str) -> None:
    recorded.unfold("debian13", tmp_path)
    cpus = tmp_path / "sys/devices/system/cpu"
    for path in cpus.glob(f"cpu*/cpuidle/state1/{name}"):
        path.write_text(f"{text}\n")
    machine = Host(Tree(tmp_path))
    found = {f.check: f for f in doctor.examine(machine)}
    assert f"{name} {text[:20]} of C1" in found["values of states"].found
    assert found["values of states"].status == WARN
    assert f"{name} {text[:20]}" in found["idle states"].found
    with pytest.raises(UserError, match=f"state1/{name}: '{text[:20]}' is no time"):
        idle_states.lines(machine)


def test_configuration_of_the_running_kernel_may_come_from_proc(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    config = tmp_path / "boot" / "config-6.12.107+deb13-amd64"
    packed = gzip.compress(config.read_bytes().replace(b"CONFIG_KPROBES=y", b""))
    config.unlink()
    (tmp_path / "proc" / "config.gz").write_bytes(packed)
    findings = {f.check: f.status for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["CONFIG_KPROBES"] == FAIL
    assert findings["CONFIG_KALLSYMS_ALL"] == OK


def test_only_x86_builds_the_emulated_machine(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    config = tmp_path / "boot/config-6.12.107+deb13-amd64"
    config.write_text(config.read_text().replace("CONFIG_POWERCAP=y\n", ""))
    findings = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["CONFIG_POWERCAP"].status == FAIL
    config.write_text(f"{config.read_text()}CONFIG_ARM64=y\n")
    assert "CONFIG_POWERCAP" not in {f.check for f in doctor.examine(Host(Tree(tmp_path)))}


def changed(root: Path, option: str, *more: str) -> dict[str, Finding]:
    """Return the findings of debian13 without an option, and with others."""
    recorded.unfold("debian13", root)
    config = root / "boot/config-6.12.107+deb13-amd64"
    lines = [line for line in config.read_text().splitlines() if line != f"{option}=y"]
    config.write_text("\n".join([*lines, *more, ""]))
    return {finding.check: finding for finding in doctor.examine(Host(Tree(root)))}


@pytest.mark.parametrize("option", ["CONFIG_MODULES", *NEEDED, *NEEDED_ON_X86])
def test_each_option_that_the_module_needs_is_checked(option: str, tmp_path: Path) -> None:
    assert statuses(changed(tmp_path, option), FAIL) == {option}


def test_a_kernel_that_clang_built_needs_clang(tmp_path: Path) -> None:
    text = 'CONFIG_CC_VERSION_TEXT="clang version 22.1.8"'
    found = changed(tmp_path, "", "CONFIG_CC_IS_CLANG=y", text)["compiler"]
    assert (found.status, found.remedy) == (FAIL, "sudo apt install clang lld llvm")
    assert "clang version 22.1.8 built the kernel" in found.found and "LLVM=1" in found.found
    for name in ("clang", "ld.lld"):
        (tmp_path / "usr/bin" / name).write_text("")
    assert changed(tmp_path, "", "CONFIG_CC_IS_CLANG=y")["compiler"].status == OK


@pytest.mark.parametrize(
    ("symbols", "status"),
    [(None, WARN), ("printk", FAIL), ("register_kprobe unregister_kprobe", WARN)],
)
def test_a_kernel_that_trims_its_exports_is_named(
    symbols: str | None, status: str, tmp_path: Path
) -> None:
    if symbols is not None:
        path = tmp_path / "lib/modules/6.12.107+deb13-amd64/build/Module.symvers"
        path.parent.mkdir(parents=True)
        lines = [f"0x0\t{name}\tvmlinux\tEXPORT_SYMBOL_GPL\t\n" for name in symbols.split()]
        path.write_text("".join(lines))
    found = changed(tmp_path, "", "CONFIG_TRIM_UNUSED_KSYMS=y")
    assert found["exports"].status == status
    assert ("register_kprobe" in found["exports"].found) == (status == FAIL)


@pytest.mark.parametrize(
    ("release", "known"),
    [
        ("6.12.108+deb13-amd64", True), ("6.1.0-50-cloud-amd64", True), ("6.12.9+bpo-arm64", True),
        ("6.12.9+deb13-arm64-16k", True), ("6.8.0-45-generic", True), ("6.18.9-2-cachyos", False),
        ("6.18.3-gentoo", False), ("6.12.30-rt", False), ("6.17.1-300.fc43.x86_64", False),
    ],
)  # fmt: skip
def test_only_packages_that_exist_are_advised(release: str, known: bool, tmp_path: Path) -> None:
    remedy = examine("debian13", tmp_path, release)["headers"].remedy
    assert (f"linux-headers-{release}" in remedy) == known
    (tmp_path / "etc/os-release").write_text("ID=gentoo\n")
    remedies = [one.remedy for one in doctor.examine(Host(Tree(tmp_path)), release)]
    assert "apt" not in " ".join(remedies).split()


def states(root: Path, cpu: int, texts: list[tuple[str, int]]) -> None:
    """Give a CPU idle states by description and whether they are disabled."""
    for k, (text, disabled) in enumerate(texts):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state{k}"
        folder.mkdir(parents=True, exist_ok=True)
        values = {"name": f"S{k}", "desc": text, "latency": k, "residency": k}
        for key, value in (values | {"disable": int(disabled)}).items():
            (folder / key).write_text(f"{value}\n")


@pytest.mark.parametrize(
    ("driver", "texts", "shown"),
    [
        ("intel_idle", ["CPUIDLE CORE POLL IDLE", "MWAIT 0x01", "MWAIT 0x20"], "MWAIT for S1 S2"),
        ("acpi_idle", ["CPUIDLE CORE POLL IDLE", "ACPI FFH MWAIT 0x0", "ACPI IOPORT 0x414"],
         "MWAIT for S1, IOPORT for S2"),
        ("acpi_idle", ["CPUIDLE CORE POLL IDLE", "ACPI HLT"], "HLT for S1"),
        ("psci_idle", ["ARM WFI", "cpu-sleep-0", "cluster-sleep-0"], "WFI for S0, PSCI for S1 S2"),
        ("haltpoll", ["CPUIDLE CORE POLL IDLE", "default idle"], None),
    ],
)  # fmt: skip
def test_the_entry_method_is_shown_where_sysfs_has_it(
    driver: str, texts: list[str], shown: str | None, tmp_path: Path
) -> None:
    recorded.unfold("debian13", tmp_path)
    cpus = tmp_path / "sys/devices/system/cpu"
    shutil.rmtree(cpus / "cpu0/cpuidle")
    (cpus / "cpuidle/current_driver").write_text(f"{driver}\n")
    states(tmp_path, 0, [(text, 0) for text in texts])
    found = {one.check: one.found for one in doctor.examine(Host(Tree(tmp_path)))}
    assert found.get("entry method") == shown


def test_states_that_are_disabled_on_some_cpus_warn(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    shutil.rmtree(tmp_path / "sys/devices/system/cpu/cpu0/cpuidle")
    for cpu in range(4):
        states(tmp_path, cpu, [("MWAIT 0x00", 0), ("MWAIT 0x20", cpu > 1), ("MWAIT 0x60", cpu > 1)])
    findings = {one.check: one for one in doctor.examine(Host(Tree(tmp_path)))}
    found = findings["disabled states"]
    assert (found.status, found.found) == (WARN, "CPU 2-3: S1, S2")
    assert "cpuN/cpuidle/stateK/disable" in found.remedy


def test_the_running_kernels_configuration_says_nothing_about_others(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    (tmp_path / "proc" / "config.gz").write_bytes(gzip.compress(b"CONFIG_KPROBES=y\n"))
    findings = {f.check for f in doctor.examine(Host(Tree(tmp_path)), "7.2.12+deb13-amd64")}
    assert "config" in findings
    assert "CONFIG_KPROBES" not in findings


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"CONFIG_A=y", mtime=0)[:-9]],
    ids=["empty", "no gzip", "truncated"],
)
def test_a_damaged_configuration_is_none(data: bytes, tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    (tmp_path / "boot" / "config-6.12.107+deb13-amd64").unlink()
    (tmp_path / "proc" / "config.gz").write_bytes(data)
    findings = {f.check: f.status for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["config"] == WARN


def test_a_module_of_another_version_warns(tmp_path: Path) -> None:
    recorded.unfold("debian13", tmp_path)
    (tmp_path / "sys/kernel/debug/cpuidle_lab/version").write_text("9.9\n")
    findings = {f.check: f for f in doctor.examine(Host(Tree(tmp_path)))}
    assert findings["module"].status == WARN
    assert "9.9" in findings["module"].found


def test_without_root_it_says_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    findings = examine("debian13", tmp_path)
    assert findings["permission"].status == WARN
    assert "not checked" in findings["permission"].found


@pytest.mark.parametrize(("name", "fails", "_warns"), EXPECTED)
def test_exit_code_and_json_agree_with_the_findings(
    name: str,
    fails: set[str],
    _warns: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(recorded.unfold(name, tmp_path)))
    code = main(["doctor", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == (1 if fails else 0)
    assert answer["can_run"] == (not fails)
    assert {f["check"] for f in answer["findings"] if f["status"] == FAIL} == fails


def test_text_has_one_line_per_check_and_plain_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(recorded.unfold("debian12-bare", tmp_path)))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    found = re.findall(r"^(ok|warn|fail) +(\S.*?)  ", out, re.MULTILINE)
    assert ("fail", "headers") in found
    assert len(found) == len(examine("debian12-bare", tmp_path / "again"))
    assert out.rstrip().endswith("cannot run the module: 1 to be mended, 5 warnings.")


@pytest.mark.parametrize("text", ["", "trixie", "6", "-1.2", "v6.1"])
def test_a_wrong_kernel_release_is_a_usage_error(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(recorded.unfold("debian11", tmp_path)))
    assert main(["doctor", f"--kernel={text}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@given(major=st.integers(0, 99), minor=st.integers(0, 999), rest=st.text(max_size=5))
def test_versions_are_their_first_two_numbers(major: int, minor: int, rest: str) -> None:
    separator = "." if rest[:1].isdecimal() else ""
    assert parse_version(f"{major}.{minor}{separator}{rest}") == (major, minor)


@given(data=st.data())
def test_a_damaged_machine_gives_findings_not_a_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = recorded.unfold("secure-boot-enrolled", tmp_path_factory.mktemp("machine"))
    paths = sorted(path for path in root.rglob("*") if path.is_file() and "bin" not in path.parts)
    damaged = data.draw(st.lists(st.sampled_from(paths), max_size=8, unique=True))
    for path in damaged:
        garbage = data.draw(st.none() | st.binary(max_size=40))
        if garbage is None:
            path.unlink()
        else:
            path.write_bytes(garbage)
    findings = doctor.examine(Host(Tree(root)), "6.12.107+deb13-amd64")
    assert all(finding.remedy for finding in findings if finding.status == FAIL)
