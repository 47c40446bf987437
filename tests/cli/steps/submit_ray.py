"""A stand-in for Ray's job server and for its program `ray job`, with Ray 2.60's words.

submit_ray.py STATE serve: runs the jobs that are submitted, as its own children. Other words are those of `ray`: job submit|status|logs|stop.
STATE/down: the cluster does not answer. STATE/calls: the verbs that it was asked, one a line.
"""
import json, os, signal, subprocess, sys, threading, time

state, words = sys.argv[1], sys.argv[2:]


def put(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def get(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


def run(job):
    at = f"{state}/{job}"
    spec = json.loads(get(f"{at}/spec"))
    with open(f"{at}/log", "wb") as log:
        p = subprocess.Popen(spec["argv"], cwd=spec["dir"] or "/", env={**os.environ, **spec["env"]}, stdout=log, stderr=log, start_new_session=True)
    put(f"{at}/pid", str(p.pid))
    code = p.wait()
    put(f"{at}/status", "was stopped" if os.path.exists(f"{at}/stop") else "succeeded" if code == 0 else f"failed\nStatus message: Job entrypoint command failed with exit code {code}")


def serve():
    fifo = os.open(f"{state}/fifo", os.O_RDWR)
    put(f"{state}/ready", "")
    for line in os.fdopen(fifo):
        threading.Thread(target=run, args=(line.strip(),), daemon=True).start()


def says(job):
    status = get(f"{state}/{job}/status")
    print(f"Job '{job}' {status}" if status else f"Status for job '{job}': {'RUNNING' if get(f'{state}/{job}/pid') else 'PENDING'}", flush=True)


def logs(job):
    print("Job submission server address: http://here", flush=True)
    at = 0
    while True:
        over = bool(get(f"{state}/{job}/status"))
        if os.path.exists(f"{state}/{job}/log"):
            with open(f"{state}/{job}/log") as f:
                f.seek(at)
                sys.stdout.write(f.read())
                sys.stdout.flush()
                at = f.tell()
        if over:
            return says(job)
        time.sleep(0.05)


if words == ["serve"]:
    serve()
assert words[0] == "job"
verb, rest, given = words[1], words[2:], {}
with open(f"{state}/calls", "a") as f:
    f.write(verb + "\n")
while rest and rest[0].startswith("--"):
    option = rest.pop(0)
    if option == "--":
        break
    given[option] = True if option in ("--no-wait", "--follow") else rest.pop(0)
if os.path.exists(f"{state}/down"):
    sys.exit(f"ConnectionError: Failed to connect to Ray at address: {given.get('--address')}.")
job = given.get("--submission-id") or rest[0]
if verb == "submit":
    try:
        os.mkdir(f"{state}/{job}")
    except FileExistsError:
        sys.exit(f"RuntimeError: Request failed with status code 500: Job with submission_id {job} already exists.")
    env = json.loads(given["--runtime-env-json"])
    put(f"{state}/{job}/spec", json.dumps({"argv": rest, "env": env["env_vars"], "runtime_env": env, "dir": given.get("--working-dir") and os.path.realpath(given["--working-dir"])}))
    with open(f"{state}/fifo", "w") as f:
        f.write(job + "\n")
    print(f"Job '{job}' submitted successfully")
elif not os.path.isdir(f"{state}/{job}"):
    sys.exit(f"RuntimeError: Request failed with status code 404: Job {job} does not exist.")
elif verb == "status":
    says(job)
elif verb == "logs":
    logs(job)
else:
    put(f"{state}/{job}/stop", "")
    os.killpg(int(get(f"{state}/{job}/pid")), signal.SIGTERM)
