#!/bin/bash
# Event files that `cairn metrics --tensorboard` writes, read by TensorBoard's own reader (from the package registry, in an environment that
# is made once and kept outside of the checkout).
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-tests
. "$(dirname "$0")/../../lib.sh"

venv=$cache/tensorboard-2.20.0
environment() {
	local fresh
	[ -x "$venv/bin/python" ] && return
	mkdir -p "$cache" && fresh=$(mktemp -d "$cache/fresh.XXXXXX") || return
	if "$SRC/tests/venv" "$fresh" --require-hashes -r "$SRC/tests/cli/past/tensorboard.requirements.txt"; then
		mv -T "$fresh" "$venv" 2>/dev/null || rm -rf "$fresh"
	else
		rm -rf "$fresh"
	fi >/dev/null 2>&1
	[ -x "$venv/bin/python" ] || return 1
}
environment || test_skip_all 'tensorboard 2.20.0 cannot be installed from the package registry here'

touch cairn.yaml
write pipeline.yaml <<'Y'
pipeline: train
steps:
  train:
    uses: train
    matrix: {fold: [0, 1]}
    run: |
      for i in $(seq 0 99); do echo "loss=0.$((100 + i)) step=$((i * 1000000))"; done
      echo "loss=nan step=99000001"
      echo '{"val": {"acc é": 0.5}, "step": -3}'
Y

test_expect 'every scalar at its step, NaN too; every checksum holds' '
	cairn -q run
	cairn metrics --tensorboard tb
	run=$(cairn runs --json >r; json r "d[\"runs\"][0][\"id\"]")
	"$venv/bin/python" - "tb/$run/train[fold=1]" <<-"E" 2>err
	import glob, math, struct, sys
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

	a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
	a.Reload()
	def points(tag):
	    return [(e.step, e.value) for e in a.Scalars(tag)]
	assert sorted(a.Tags()["scalars"]) == ["loss", "val.acc é"], a.Tags()
	loss = points("loss")
	assert len(loss) == 101, len(loss)
	for i, (step, value) in enumerate(loss[:100]):
	    want = struct.unpack("f", struct.pack("f", float(f"0.{100 + i}")))[0]
	    assert step == i * 1000000 and value == want, (step, value)
	assert loss[100][0] == 99000001 and math.isnan(loss[100][1]), loss[100]
	assert points("val.acc é") == [(-3, 0.5)]
	(path,) = glob.glob(glob.escape(sys.argv[1]) + "/*")
	events = list(LegacyEventFileLoader(path).Load())
	assert events[0].file_version == "brain.Event:2" and len(events) == 103
	assert len({e.wall_time for e in events}) == 1 and events[0].wall_time > 1.5e9
	E
'

test_expect 'one changed byte, and the reader sees less: the checksums are looked at' '
	run=$(ls tb)
	cp -r "tb/$run/train[fold=1]" broken
	python3 - broken/* <<-"E"
	import sys
	b = bytearray(open(sys.argv[1], "rb").read())
	b[len(b) // 2] ^= 1
	open(sys.argv[1], "wb").write(b)
	E
	"$venv/bin/python" -c "
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(\"broken\"); a.Reload(); n = len(a.Scalars(\"loss\")); assert 10 < n < 101, n"
'
test_done
