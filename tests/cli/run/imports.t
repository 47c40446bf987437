#!/bin/bash
# Python's own files come along: the modules that a script imports, what a shell script sources, and nothing else.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
# file PATH [LINE...]
file() { mkdir -p "$(dirname "$1")"; printf '%s\n' "${@:2}" >"$1"; }
# came PIPELINE STEP: what came along, a line each
came() { cairn plan -v --json "$1" >plan; json plan "\"\\n\".join(\"%s %s %s:%s\" % (c[\"path\"], c[\"why\"], c[\"by\"], c[\"line\"]) for c in d[\"code\"] if c[\"step\"] == \"$2\")" | sed "s/ None:None//"; }
# executed PIPELINE: what a run executes now; it is executed
executed() { cairn plan --json "$1" >plan; cairn run -q "$1" >&2; json plan '" ".join(sorted(t["task"] for t in d["tasks"] if t["state"] == "run"))'; }

write pipeline.yaml <<'YAML'
pipeline: p
steps:
  train: {run: "python3 src/train.py >o", outputs: {o: o}}
  module: {run: "python3 -m lib.deep.main >o", outputs: {o: o}}
  alone: {run: "python3 src/alone.py >o", outputs: {o: o}}
  shell: {run: "sh bin/go.sh >o", outputs: {o: o}}
YAML
file src/train.py 'import os, util' 'def f():' '    from pkg.sub import thing' '    return thing' 'print(util.x, f())'
file src/util.py 'x = 1'
file src/unused.py 'import util'
file src/pkg/__init__.py '"""' 'import unused' '"""'
file src/pkg/sub.py 'from . import other' 'from ...up import no' 'thing = other.thing'
file src/pkg/other.py 'def cycle():' '    import train, pkg.sub' 'thing = 2'
sed -i '/import no/d' src/pkg/sub.py
file src/alone.py 'import json, sys' 'print(3)'
file lib/deep/main.py 'from .. import common' 'from lib.space.inner import y' 'print(common.z + y)'
file lib/common.py 'z = 4'
file lib/space/inner.py 'y = 5'
file bin/go.sh '#!/bin/sh' '. ./bin/env.sh' 'echo $NAME'
file bin/env.sh '. bin/more.sh'
file bin/more.sh 'NAME=you'

test_expect 'imports of a script, of its modules, in functions, of packages, in cycles; plan -v says why' '
	test_is "$(came pipeline.yaml train)" "src/pkg/__init__.py imported src/train.py:3
src/pkg/other.py imported src/pkg/sub.py:1
src/pkg/sub.py imported src/train.py:3
src/train.py named
src/util.py imported src/train.py:1"
	cairn plan -v >out
	test_grep "^  src/util.py: imported by src/train.py:1$" out
	test_grep "^  src/train.py: named in the command$" out
	test_grep "^  bin/more.sh: sourced by bin/env.sh:1$" out
	cairn plan >out
	test_no_grep src/util.py out
'
test_expect 'with -m: from the root of the project, relative and of namespaces' '
	test_is "$(came pipeline.yaml module)" "lib/common.py imported lib/deep/main.py:1
lib/deep/main.py named
lib/space/inner.py imported lib/deep/main.py:2"
'
test_expect 'what a shell script sources, and what that sources' '
	test_is "$(came pipeline.yaml shell)" "bin/env.sh sourced bin/go.sh:2
bin/go.sh named
bin/more.sh sourced bin/env.sh:1"
'
test_expect 'the steps run with it' '
	cairn run -q
	test_is "$(cairn get train/o -o -)" "1 2"
	test_is "$(cairn get module/o -o -)" 9
	test_is "$(cairn get shell/o -o -)" you
'
test_expect 'a change of a module makes exactly those run that import it, and why names it' '
	echo "x = 7" >src/util.py
	cairn why train >out
	test_grep "code changed: src/util.py" out
	test_is "$(executed pipeline.yaml)" train
	test_is "$(cairn get train/o -o -)" "7 2"
	echo "# unused" >>src/unused.py
	test_is "$(executed pipeline.yaml)" ""
	echo "NAME=me" >bin/more.sh
	echo "y = 6" >lib/space/inner.py
	test_is "$(executed pipeline.yaml)" "module shell"
'
test_expect 'a module that appears, or goes, is a change too' '
	echo "import util" >>src/alone.py
	test_is "$(executed pipeline.yaml)" alone
	came pipeline.yaml alone >out
	test_grep src/util.py out
	file src/json/__init__.py "def load(): pass"
	test_is "$(executed pipeline.yaml)" alone
	rm -r src/json
	test_is "$(executed pipeline.yaml)" ""
'
test_expect 'a run is made again without the project' '
	hash=$(cairn runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"hash\"])")
	mv src ../src
	mv lib ../lib
	cairn reproduce "$hash" >out
	mv ../src src
	mv ../lib lib
'

write other.yaml <<'YAML'
pipeline: other
steps:
  path: {run: "python3 tools/main.py >o", env: {PYTHONPATH: "vendor:./lib/"}, outputs: {o: o}}
  inline: {run: "PYTHONPATH=vendor:$PWD/lib:$PYTHONPATH python3 tools/main.py >o", outputs: {o: o}}
  launched: {run: "python3 -m torch.distributed.run tools/launched.py", outputs: {o: o}}
  package: {run: "python3 -m app", outputs: {o: o}}
  program: {run: "./tools/program; ./tools/noise", outputs: {o: o}}
  data: {run: "git commit -m data tools/data.txt; echo -m; lib.common", outputs: {o: o}}
  whole: {run: "python3 tools/main.py", code: [.], outputs: {o: o}}
  folder: {run: "python3 tools/launched.py", code: [lib], outputs: {o: o}}
YAML
file tools/main.py 'import dep, common'
file tools/launched.py 'import lib.common'
file tools/program '#!/usr/bin/env python3' 'import near'
file tools/noise 'import near'
chmod +x tools/program tools/noise
file tools/near.py ''
file tools/data.txt 'import near'
mkdir data
file vendor/dep.py ''
file app/__init__.py ''
file app/__main__.py 'from .part import x'
file app/part.py ''

test_expect 'PYTHONPATH of env or command; scripts that a module starts; packages and programs' '
	test_is "$(came other.yaml path)" "lib/common.py imported tools/main.py:1
tools/main.py named
vendor/dep.py imported tools/main.py:1"
	test_is "$(came other.yaml inline)" "lib/common.py imported tools/main.py:1
tools/main.py named
vendor/dep.py imported tools/main.py:1"
	test_is "$(came other.yaml launched)" "lib/common.py imported tools/launched.py:1
tools/launched.py named"
	test_is "$(came other.yaml package)" "app/__init__.py named
app/__main__.py named
app/part.py imported app/__main__.py:1"
	test_is "$(came other.yaml program)" "tools/near.py imported tools/program:2
tools/noise named
tools/program named"
	test_is "$(came other.yaml data)" "tools/data.txt named"
'
test_expect '`code` adds to it, and covers what it names' '
	test_is "$(came other.yaml whole)" ". declared"
	test_is "$(came other.yaml folder)" "lib declared
tools/launched.py named"
'
test_expect '`imports: false` leaves imports to `code`' '
	write only.yaml <<-\YAML
		pipeline: only
		defaults: {code: {imports: false}}
		steps:
		  a: {run: "python3 src/train.py; python3 -m app; sh bin/go.sh", outputs: {o: o}}
		  b: {run: "python3 src/train.py", code: {paths: [src/pkg], imports: false}, outputs: {o: o}}
		  c: {run: "python3 src/train.py", code: {imports: true}, outputs: {o: o}}
	YAML
	test_is "$(came only.yaml a)" "bin/go.sh named
src/train.py named"
	test_is "$(came only.yaml b)" "src/pkg declared
src/train.py named"
	came only.yaml c >out
	test_grep "src/util.py imported" out
'
test_expect 'lock files: part of the key, there when the step runs, and why tells; without one, an error says where' '
	write env.yaml <<-\YAML
		pipeline: env
		defaults: {env_file: uv.lock}
		steps:
		  a: {run: "cat uv.lock >o; python3 src/alone.py", outputs: {o: o}}
		  b: {run: "cat requirements.txt env/environment.yml >o", env_file: [requirements.txt, env/environment.yml], outputs: {o: o}}
	YAML
	echo "numpy==1" >uv.lock
	echo "torch==1" >requirements.txt
	file env/environment.yml "name: x"
	test_is "$(executed env.yaml)" "a b"
	test_is "$(executed env.yaml)" ""
	test_is "$(cairn get b/o -o -)" "torch==1
name: x"
	cairn plan -v env.yaml >out
	test_grep "^  uv.lock: in .env_file.$" out
	echo "numpy==2" >uv.lock
	cairn why env.yaml a >out
	test_grep "environment file uv.lock changed" out
	test_no_grep "code changed" out
	test_is "$(executed env.yaml)" a
	echo "#" >>src/alone.py
	echo "numpy==3" >uv.lock
	cairn why env.yaml a >out
	test_grep "environment file uv.lock changed; code changed: src/" out
	echo "name: y" >env/environment.yml
	cairn why env.yaml b >out
	test_grep "environment file env/environment.yml changed$" out
	hash=$(cairn runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"hash\"])")
	mv uv.lock requirements.txt ..
	test_code 4 cairn plan env.yaml 2>err
	test_grep "env.yaml:4:3: step .a.: .env_file.: uv.lock is no file of the project" err
	cairn reproduce "$hash" >out
'

key() { cairn plan --json "$1" >plan; json plan "[t[\"key\"] for t in d[\"tasks\"] if t[\"task\"] == \"$2\"][0]"; }
test_expect 'the key of a step whose script imports nothing from the project is that of the script alone' '
	write same.yaml <<-\YAML
		pipeline: same
		steps:
		  a: {run: "python3 src/same.py >o", outputs: {o: o}}
	YAML
	file src/same.py "import json, sys" "from numpy import array" "from . import util"
	before=$(key same.yaml a)
	file src/json.txt ""
	file src/numpy.md ""
	test_is "$(key same.yaml a)" "$before"
	file src/same.py "import json, sys" "from numpy import array" "import util"
	[ "$(key same.yaml a)" != "$before" ]
'

write hostile.yaml <<'YAML'
pipeline: hostile
steps:
  a: {run: "python3 evil/main.py >o", outputs: {o: o}}
  b: {run: "sh evil/main.sh >o", outputs: {o: o}}
YAML
test_expect 'what leads out of the project is not read: links, dots, absolute paths' '
	file ../outside/secret.py "import found"
	file ../outside/secret.sh ". ./found.sh"
	touch found.py found.sh
	file evil/found.py
	file evil/up.py
	file evil/main.py "from .... import up" "from . import up" "import secret, linked.secret, direct, gone.x" "from .. import found"
	file evil/main.sh ". ../outside/secret.sh" ". /etc/profile" ". evil/linked/secret.sh" ". evil/../evil/../../outside/secret.sh"
	ln -s ../../outside evil/linked
	ln -s ../../outside/secret.py evil/direct.py
	ln -s /nowhere evil/gone
	test_is "$(came hostile.yaml a)" "evil/main.py named"
	test_is "$(came hostile.yaml b)" "evil/main.sh named"
'
test_expect 'links that stay inside are followed, round and round' '
	ln -s ../lib evil/shared
	ln -s . evil/again
	file evil/main.py "import shared.common, again.again.again.up"
	test_is "$(came hostile.yaml a)" "evil/again/again/again/up.py imported evil/main.py:1
evil/main.py named
evil/shared/common.py imported evil/main.py:1"
'
test_expect 'no text in UTF-8, a file without end, a directory that is called like a module, a fifo' '
	printf "x = \"\\xff\\xfe\"; import up\n\\0\\0import found\n" >evil/main.py
	test_is "$(came hostile.yaml a)" "evil/main.py named
evil/up.py imported evil/main.py:1"
	mkdir evil/folder.py
	mkfifo evil/fifo.py
	file evil/main.py "import folder, fifo, huge"
	truncate -s 100M evil/huge.py
	test_is "$(came hostile.yaml a)" "evil/huge.py imported evil/main.py:1
evil/main.py named"
	rm evil/huge.py
'
test_expect 'ten thousand modules in a ring' '
	python3 -c "
import os
os.mkdir(\"evil/ring\")
for i in range(10000):
    open(f\"evil/ring/m{i}.py\", \"w\").write(f\"from ring import m{(i + 1) % 10000}, m{(i * 7) % 10000}\\n\")"
	file evil/main.py "import ring.m0"
	came hostile.yaml a >out
	test_lines 10001 out
	rm -r evil/ring
'
test_expect 'an output where code was imported from is an error that names both' '
	write clash.yaml <<-\YAML
		pipeline: clash
		steps:
		  a:
		    run: python3 src/clash.py
		    outputs: {m: src/pkg/}
	YAML
	file src/clash.py "import pkg"
	test_code 3 cairn plan clash.yaml 2>err
	test_grep "clash.yaml:5:.*output .m. of step .a. is made at src/pkg, where its code has src/pkg/__init__.py \(imported by src/clash.py:1\)" err
'

test_done
