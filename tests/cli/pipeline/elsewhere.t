#!/bin/bash
# Steps that use a file of a git commit, or the pipeline of a past run: pinned, with a root of their own, hostile content refused.
. "$(dirname "$0")/../../lib.sh"

test_have git python3
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.test
mkdir -p ../shared src
git init -q -b main ../shared

# The shared repository: a pipeline below a folder, with code, an import, data, a step file and another pipeline of its own.
cd ../shared
mkdir -p pipelines steps src data
echo 'echo word' >src/word.sh
echo 'print("helped")' >src/helper.py
printf 'import helper\nprint(open("data/a.txt").read())\n' >src/train.py
echo alpha >data/a.txt
write steps/shout.yaml <<'YAML'
step: shout
params: {times: 1}
code: [loud.sh]
inputs: [text]
outputs: {out: o}
run: sh ${{ step.dir }}/loud.sh ${{ inputs.text }} ${{ params.times }} >${{ outputs.out }}
YAML
echo 'tr a-z A-Z <"$1"; echo "$2"' >steps/loud.sh
write pipelines/inner.yaml <<'YAML'
pipeline: inner
outputs: {o: "${{ steps.w.outputs.o }}"}
steps:
  w: {run: "sh src/word.sh >o", outputs: {o: o}}
YAML
write pipelines/train.yaml <<'YAML'
pipeline: trainer
params: {lr: 0.1}
inputs: {raw: data/a.txt}
outputs: {model: "${{ steps.train.outputs.model }}"}
steps:
  words: {uses: ./inner.yaml}
  train:
    run: PYTHONDONTWRITEBYTECODE=1 python3 src/train.py >m; cat ${{ inputs.w }} >>m; echo ${{ params.lr }} >>m
    code: [data]
    inputs: {w: "${{ steps.words.outputs.o }}"}
    outputs: {model: m}
  raw: {run: "cat ${{ inputs.r }} >o", inputs: {r: "${{ inputs.raw }}"}, outputs: {o: o}}
YAML
git add -A
git commit -qm one
one=$(git rev-parse HEAD)
echo 'echo changed' >src/word.sh
git commit -qam two
two=$(git rev-parse HEAD)
git tag -m annotated v1
tag=$(git rev-parse v1)
export one two tag
cd ../work
echo '# project' >cairn.yaml
echo 'echo mine' >src/word.sh
url="git+file://$(realpath ../shared)"
write p.yaml <<YAML
pipeline: p
steps:
  sub: {uses: "$url@$one#pipelines/train.yaml", with: {lr: 0.5}}
  shout: {uses: "$url@$one#steps/shout.yaml", with: {times: 3}, inputs: {text: "\${{ steps.sub.outputs.model }}"}}
  mine: {run: "sh src/word.sh >o", outputs: {o: o}}
YAML

counts() { json "$1" 'd["counts"]["executed"]'; }

test_expect 'a commit is used as it is there: code, imports, data, step files and pipelines below its own root' '
	cairn check p.yaml >said 2>&1
	test_grep "fetching git.file:.*@$one" said
	test_no_grep warning said
	cairn run -q p.yaml
	cairn get shout/out -o - >got
	test_is "$(tr "\n" " " <got)" "HELPED ALPHA  WORD 0.5 3 "
	cairn get mine/o -o - >got
	test_is "$(cat got)" mine
'

test_expect 'keys are those of the checkout itself: neither way anything runs twice' '
	git clone -q ../shared ../checkout
	git -C ../checkout checkout -q "$one"
	echo "# project" >../checkout/cairn.yaml
	(cd ../checkout; cairn run -q pipelines/train.yaml -p lr=0.5 --store ../work/.cairn/store --json) >run.json
	test_is "$(counts run.json)" 0
'

test_expect 'it is fetched once; later nothing asks the repository, also not to run' '
	mv ../shared ../away
	cairn check p.yaml >said 2>&1
	test_no_grep fetching said
	cairn run -q --force sub p.yaml
	cairn plan p.yaml >plan
	test_no_grep "run +sub" plan
	rm -r .cairn/uses
	test_code 3 cairn check p.yaml 2>err
	test_grep "p.yaml:3:15: git.file:.*@$one: it can.t be fetched: " err
	mv ../away ../shared
'

test_expect 'another commit is another content' '
	sed "s/$one/$two/" p.yaml >q.yaml
	cairn run -q q.yaml
	cairn get sub/words/w/o -o - >got
	test_is "$(cat got)" changed
'

test_expect 'resume and reproduce take it from the store: without repository, checkout and cache' '
	sed -i "s/lr: 0.5/lr: 0.7/" p.yaml
	cairn run -q p.yaml
	cairn status --json >status.json
	hash=$(json status.json "d[\"run\"][\"hash\"]")
	mkdir ../elsewhere
	cp cairn.yaml ../elsewhere
	mv ../shared ../away
	(cd ../elsewhere; cairn reproduce -q --trust --json "$hash" --store ../work/.cairn/store) >report
	mv ../away ../shared
	test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"reproduced\"]"
	test ! -e ../elsewhere/.cairn/uses
'

test_expect 'the pipeline of a past run: same code, same inputs, whatever the project has by now' '
	mkdir data
	echo old >data/in.txt
	printf "cat \"\$1\"\n. src/part.sh\n" >src/show.sh
	echo "echo part" >src/part.sh
	mkdir bin
	printf "#!/bin/sh\necho tool\n" >bin/tool
	chmod +x bin/tool
	cp data/in.txt data/in.csv
	write base.yaml <<-"Y"
	pipeline: base
	params: {n: 1}
	inputs: {raw: data/in.txt}
	outputs: {o: "${{ steps.b.outputs.o }}"}
	steps:
	  a: {run: "sh src/show.sh ${{ inputs.i }} >o", inputs: {i: "${{ inputs.raw }}"}, outputs: {o: o}}
	  b: {run: "cat ${{ inputs.o }} ${{ inputs.d }}/in.txt >o; echo ${{ params.n }} >>o", inputs: {o: "${{ steps.a.outputs.o }}", d: data/}, outputs: {o: o}}
	  tool: {run: "${{ inputs.t }} >o", inputs: {t: bin/tool}, outputs: {o: o}}
	  names: {run: "echo ${{ inputs.txt }} ${{ inputs.csv }} >o", inputs: {txt: data/in.txt, csv: data/in.csv}, outputs: {o: o}}
	Y
	cairn run -q base.yaml
	cairn status --json >status.json
	hash=$(json status.json "d[\"run\"][\"hash\"]")
	hash=${hash#sha256:}
	echo new >data/in.txt
	echo "echo other" >src/part.sh
	mv base.yaml gone.yaml
	write r.yaml <<-Y
	pipeline: r
	steps:
	  past: {uses: "run:$hash"}
	  more: {uses: "run:$hash", with: {n: 2}}
	  own: {uses: "run:$hash", inputs: {raw: data/in.txt}}
	Y
	cairn check r.yaml
	cairn run -q r.yaml --json >run.json
	test_is "$(counts run.json)" 3 # more/b, and both of own: names and bits of inputs are as they were
	cairn run -q r.yaml --force past/tool --force past/names
	cairn get past/tool/o -o - >got
	test_is "$(cat got)" tool
	cairn get past/names/o -o - >got
	test_is "$(cat got)" "inputs/txt.txt inputs/csv.csv"
	cairn get more/b/o -o - >got
	test_is "$(tr "\n" " " <got)" "old part old 2 "
	cairn get own/b/o -o - >got
	test_is "$(tr "\n" " " <got)" "new part old 1 "
	cairn status --json >status.json
	again=$(json status.json "d[\"run\"][\"hash\"]")
	mkdir ../third
	cp cairn.yaml ../third
	(cd ../third; cairn reproduce -q --trust --json "$again" --store ../work/.cairn/store) >report
	test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"reproduced\"]"
	write none.yaml <<-Y
	pipeline: none
	steps: {a: {uses: "run:$(printf "%064d" 7)"}}
	Y
	test_code 3 cairn check none.yaml 2>err
	test_grep "none.yaml:2:19: run:0.*7: the store has no run of this hash" err
'

test_expect 'the environment of a step of a commit or a past run is made from the lock file of there' '
	mkdir tools
	write tools/micromamba <<-"S"
	#!/bin/sh
	# What conda would do: CREATE --yes --prefix DIR --file FILE
	echo made >>"$MAMBA_MADE"
	mkdir -p "$4/bin" "$4/conda-meta"
	printf "#!/bin/sh\necho %s\n" "$(sed -n "/^http/s/.*#//p" "$6")" >"$4/bin/tool"
	chmod +x "$4/bin/tool"
	echo "{}" >"$4/conda-meta/tool-1.json"
	S
	chmod +x tools/micromamba
	export PATH="$PWD/tools:$PATH" MAMBA_MADE=$TRASH/made
	lock() { printf "# platform: linux-64\n@EXPLICIT\nhttps://example.org/linux-64/tool-1.conda#%032d\n" "$1"; }
	git clone -q ../shared ../env
	lock 1 >../env/conda.txt
	write ../env/env.yaml <<-"Y"
	pipeline: env
	steps:
	  t: {run: "tool >o", outputs: {o: o}, environment: conda.txt}
	Y
	git -C ../env add -A
	git -C ../env commit -qm env
	lock 2 >conda.txt
	cp ../env/env.yaml env.yaml
	cairn run -q env.yaml
	cairn status --json >status.json
	hash=$(json status.json "d[\"run\"][\"hash\"]")
	lock 3 >conda.txt
	write all.yaml <<-Y
	pipeline: all
	steps:
	  far: {uses: "git+file://$(realpath ../env)@$(git -C ../env rev-parse HEAD)#env.yaml"}
	  past: {uses: "run:${hash#sha256:}"}
	  near: {uses: ./env.yaml}
	Y
	cairn check all.yaml
	cairn run -q all.yaml --json >run.json
	test_is "$(counts run.json)" 2 # of past, the result is there
	for t in far:1 past:2 near:3; do
		cairn get "${t%:*}/t/o" -o - >got
		test_is "$(cat got)" "$(printf "%032d" "${t#*:}")"
	done
	test_lines 3 "$MAMBA_MADE"
	# The past run keeps its lock file, too: what was made from it is gone, and so are the roots.
	chmod -R u+w .cairn/environments
	rm -r .cairn/environments .cairn/uses
	cairn run -q all.yaml --force past/t --force far/t
	cairn get past/t/o -o - >got
	test_is "$(cat got)" "$(printf "%032d" 2)"
	test_lines 5 "$MAMBA_MADE"
	cairn status --json >status.json
	again=$(json status.json "d[\"run\"][\"hash\"]")
	rm -r ../env .cairn/uses
	cairn reproduce -q --trust --json "$again" >report
	test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"reproduced\"]"
'

test_expect 'an input by reference is the version that the run read' '
	cat >objects.py <<-"Y"
	import hashlib, http.server, os
	class Objects(http.server.BaseHTTPRequestHandler):
	    def do_GET(self):
	        body = open("object", "rb").read()
	        tag = "\"" + hashlib.md5(body).hexdigest() + "\""
	        changed = self.headers.get("If-Match") not in (None, tag)
	        self.send_response(412 if changed else 200)
	        self.send_header("ETag", tag)
	        self.send_header("Content-Length", str(0 if changed else len(body)))
	        self.end_headers()
	        if self.command == "GET" and not changed:
	            self.wfile.write(body)
	    do_HEAD = do_GET
	    def log_message(self, *a): pass
	s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)
	open("objects.new", "w").write(str(s.server_port))
	os.rename("objects.new", "objects.port")
	s.serve_forever()
	Y
	echo first >object
	start objects python3 objects.py
	wait_until 20 test -s objects.port
	write far.yaml <<-Y
	pipeline: far
	inputs: {big: {uri: "http://127.0.0.1:$(cat objects.port)/big.txt", mode: reference}}
	steps:
	  a: {run: "cat \${{ inputs.b }} >o", inputs: {b: "\${{ inputs.big }}"}, outputs: {o: o}}
	Y
	cairn run -q far.yaml
	cairn status --json >status.json
	hash=$(json status.json "d[\"run\"][\"hash\"]")
	echo second >object
	write r.yaml <<-Y
	pipeline: r
	steps: {past: {uses: "run:${hash#sha256:}"}}
	Y
	cairn run -q r.yaml --json >run.json
	test_is "$(counts run.json)" 0
	kill "$(cat objects.pid)"
'

test_expect 'what is no pinned commit of a branch or tag is refused in words' '
	for what in "$url@main#p.yaml" "$url@${one:0:12}#p.yaml" "$url#p.yaml" "$url@$one" "git+ssh://git@h.test/r@$one#p.yaml" \
		"git+https://me:secret@h.test/r@$one#p.yaml" "git+http://h.test/r@$one#p.yaml" "$url@$one#../../etc/passwd" "run:${one:0:8}" \
		"$url@${one/[0-9]/f}#p.yaml" "$url@$tag#p.yaml" "$url@$one#none.yaml"
	do
		printf "pipeline: x\nsteps:\n  a: {uses: \"%s\"}\n" "$what" >bad.yaml
		test_code 3 cairn check bad.yaml 2>>errs
	done
	test_is "$(grep -c "bad.yaml:3:13: " errs)" 12
	test_is "$(grep -c "A branch or tag moves" errs)" 2
	test_grep "write git.https://host/repository@COMMIT#path" errs
	test_grep "which file of the repository" errs
	test_grep "a user and a password don.t belong" errs
	grep "bad.yaml:3" errs >told
	test_no_grep "secret" told
	test_grep "http:// is for this machine" errs
	test_grep "leads out of the commit" errs
	test_grep "64 lower-case hex digits" errs
	test_grep "no branch or tag of the repository leads to a commit" errs
	test_grep "step file .none.yaml. does not exist in git.file" errs
'

test_expect 'links lead nowhere, submodules are empty, state of Cairn stays out, a file named .git is refused' '
	git clone -q ../shared ../evil
	ln -s /etc/passwd ../evil/pass.yaml
	ln -s pipelines ../evil/inside
	mkdir ../evil/.cairn
	echo x >../evil/.cairn/cairn.db
	(
		cd ../evil
		git add -fA
		git update-index --add --cacheinfo "160000,$one,module"
		git commit -qm evil
	)
	evil=$(git -C ../evil rev-parse HEAD)
	write e.yaml <<-Y
	pipeline: e
	steps:
	  a: {uses: "git+file://$(realpath ../evil)@$evil#pass.yaml"}
	  b: {uses: "git+file://$(realpath ../evil)@$evil#inside/train.yaml"}
	Y
	test_code 3 cairn check e.yaml 2>err
	test_grep "e.yaml:3:13: .pass.yaml. is a symbolic link that leads out of the commit" err
	test_no_grep "e.yaml:4" err
	test -d ".cairn/uses/git@$evil/module"
	test ! -e ".cairn/uses/git@$evil/.cairn"
	(
		cd ../evil
		blob=$(git rev-parse HEAD:src/word.sh)
		# Git itself would not make it.
		tree=$(printf "100644 .git\0%b" "$(echo "$blob" | sed "s/../\\\\x&/g")" | git hash-object -t tree -w --stdin --literally)
		git update-ref refs/heads/bad "$(git commit-tree -m bad "$tree")"
	)
	bad=$(git -C ../evil rev-parse bad)
	printf "pipeline: x\nsteps: {a: {uses: \"git+file://%s@%s#p.yaml\"}}\n" "$(realpath ../evil)" "$bad" >bad.yaml
	test_code 3 cairn check bad.yaml 2>err
	test_grep "the commit has .\.git., which would be git.s own state" err
	test -z "$(find .cairn/uses -name ".tmp-*")"
'

test_expect 'folders of a commit may be 100 deep, and not one more' '
	git clone -q ../shared ../deep
	deep=$(printf "d/%.0s" $(seq 100))
	for n in 100 101; do
		mkdir -p "../deep/$deep"
		printf "pipeline: deep\nsteps: {a: {run: \"echo %s >o\", outputs: {o: o}}}\n" $n >"../deep/${deep}p.yaml"
		git -C ../deep add -A
		git -C ../deep commit -qm "deep $n"
		printf "pipeline: x\nsteps: {a: {uses: \"git+file://%s@%s#%sp.yaml\"}}\n" "$(realpath ../deep)" "$(git -C ../deep rev-parse HEAD)" "$deep" >deep$n.yaml
		deep=${deep}d/
	done
	cairn check deep100.yaml
	test_code 3 cairn check deep101.yaml 2>err
	test_grep "the commit has folders more than 100 deep" err
'

test_expect 'kill -9 in a fetch leaves nothing that counts; two at once fetch once' '
	cat >server.py <<-"Y"
	import http.server, os, socketserver, threading
	# Git over HTTP, by git http-backend; requests wait while the file `hold` is there.
	class Git(http.server.CGIHTTPRequestHandler):
	    cgi_directories = ["/git"]
	    def is_cgi(self):
	        self.cgi_info = ("git", self.path[len("/git/"):])
	        return self.path.startswith("/git/")
	    def run_cgi(self):
	        import subprocess
	        path, _, query = self.path.partition("?")
	        open("requests", "a").write(path + "\n")
	        while os.path.exists("hold"):
	            threading.Event().wait(0.02)
	        env = dict(os.environ, GIT_PROJECT_ROOT=os.path.dirname(os.getcwd()), GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path[len("/git"):],
	                   QUERY_STRING=query, REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get("content-type", ""))
	        if "content-encoding" in self.headers:
	            env["HTTP_CONTENT_ENCODING"] = self.headers["content-encoding"]
	        if (self.headers.get("transfer-encoding") or "").lower() == "chunked":
	            body = b""
	            while (n := int(self.rfile.readline(), 16)):
	                body += self.rfile.read(n)
	                self.rfile.readline()
	            self.rfile.readline()
	        else:
	            body = self.rfile.read(int(self.headers.get("content-length") or 0))
	        env["CONTENT_LENGTH"] = str(len(body))
	        out = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env=env).stdout
	        head, _, rest = out.partition(b"\r\n\r\n")
	        lines = dict(l.split(": ", 1) for l in head.decode().split("\r\n"))
	        self.send_response(int(lines.pop("Status", "200").split()[0]))
	        for k, v in lines.items():
	            self.send_header(k, v)
	        self.send_header("Content-Length", str(len(rest)))
	        self.end_headers()
	        self.wfile.write(rest)
	    do_GET = do_POST = run_cgi
	    def log_message(self, *a): pass
	class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
	    daemon_threads = True
	s = Server(("127.0.0.1", 0), Git)
	open("port.new", "w").write(str(s.server_port))
	os.rename("port.new", "port")
	s.serve_forever()
	Y
	start server python3 server.py
	wait_until 20 test -s port
	web="git+http://127.0.0.1:$(cat port)/git/shared/.git"
	write w.yaml <<-Y
	pipeline: w
	steps: {sub: {uses: "$web@$one#pipelines/train.yaml"}}
	Y
	rm -rf .cairn/uses requests
	touch hold
	start killed cairn check w.yaml
	wait_until 20 test -s requests
	kill -9 "$(cat killed.pid)"
	wait_until 20 test -s killed.rc
	test ! -e ".cairn/uses/git@$one"
	start first cairn check w.yaml
	start second cairn check w.yaml
	wait_until 20 test_lines 2 requests
	rm hold
	wait_until 30 test -s first.rc
	wait_until 30 test -s second.rc
	test_is "$(cat first.rc) $(cat second.rc)" "0 0"
	test -d ".cairn/uses/git@$one/pipelines"
	test -z "$(find .cairn/uses -name ".tmp-*")"
	cairn run -q w.yaml
	kill "$(cat server.pid)"
'

test_done
