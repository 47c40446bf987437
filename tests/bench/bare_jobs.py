"""tests/bench/bare_jobs.py KUBECONFIG PODS A_JOB: makes Jobs of so many pods each as fast as the API server takes them, waits until all are complete, and deletes them."""
import concurrent.futures
import http.client
import json
import ssl
import sys
import threading

THREADS = 8
local = threading.local()


class Api:
    def __init__(self, kubeconfig):
        with open(kubeconfig) as f:
            c = json.load(f)
        self.host = c["clusters"][0]["cluster"]["server"].removeprefix("https://")
        self.context = ssl.create_default_context(cafile=c["clusters"][0]["cluster"]["certificate-authority"])
        self.headers = {"Authorization": f"Bearer {c['users'][0]['user']['token']}", "Content-Type": "application/json"}
        self.jobs = f"/apis/batch/v1/namespaces/{c['contexts'][0]['context']['namespace']}/jobs"

    def connect(self):
        return http.client.HTTPSConnection(self.host, context=self.context, timeout=600)

    def ask(self, method, path, body=None):
        if not hasattr(local, "connection"):
            local.connection = self.connect()
        local.connection.request(method, path, json.dumps(body) if body else None, self.headers)
        answer = local.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)


def job(i, pods):
    container = {"name": "main", "image": "fake:1", "command": ["true", str(i)], "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}}}
    several = {"completionMode": "Indexed", "completions": pods, "parallelism": pods} if pods > 1 else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"b-{i}"},
            "spec": {"backoffLimit": 0, **several, "template": {"spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "nodeSelector": {"simulated": "true"},
                                                              "tolerations": [{"key": "simulated", "operator": "Exists"}],
                                                              "containers": [container]}}}}


def main():
    api, pods, a_job = Api(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sizes = [min(a_job, pods - i) for i in range(0, pods, a_job)]
    n = len(sizes)
    stream = api.connect()
    stream.request("GET", api.jobs + "?watch=1", None, api.headers)
    events = stream.getresponse()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        made = [pool.submit(api.ask, "POST", api.jobs, job(i, size)) for i, size in enumerate(sizes)]
        complete, gone = set(), []
        while len(complete) < n:
            o = json.loads(events.readline())["object"]
            name = o["metadata"]["name"]
            if name not in complete and any(c["type"] == "Complete" for c in o.get("status", {}).get("conditions", [])):
                complete.add(name)
                gone.append(pool.submit(api.ask, "DELETE", f"{api.jobs}/{name}?propagationPolicy=Background"))
        for f in made + gone:
            f.result()


main()
