/* `cairn doctor --on kubernetes`: the cluster that cairn.yaml and the kubeconfig name. */
#include <netdb.h>
#include <string.h>
#include "cli/upkeep/doctor.h"
#include "runners/kubernetes/probe.h"

static void found(void *arg, enum kube_finding v, const char *name, const char *detail,
		  const char *advice)
{
	static const enum doctor_verdict verdicts[] = { [KUBE_FINE] = DOCTOR_OK,
							[KUBE_WARNING] = DOCTOR_WARNING,
							[KUBE_PROBLEM] = DOCTOR_PROBLEM };

	doctor_found(arg, verdicts[v], name, advice, "%s", detail);
}

static const char *who(const struct kube_access *a)
{
	if (a->exec)
		return a->exec->command;
	if (a->token || a->token_file)
		return "a token";
	return a->cert_pem ? "a client certificate" : a->username ? a->username : "nobody";
}

/* 1 it exists, 0 it doesn't, -1 this account may not know. */
static int has_secret(struct kube_client *c, const char *ns, const char *name)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "GET", .accept = KUBE_METADATA_ONLY, .once = true };
	struct err err = { 0 };
	int r;

	kube_add_path(&path, "", "v1", ns, "secrets", name);
	call.path = path.s;
	r = kube_do(c, &call, &err) == 0 ? 1 : err.code == ERR_NOT_FOUND ? 0 : -1;
	kube_call_deinit(&call);
	return r;
}

/* Checks what can be seen from here, which is less than a pod sees: only what was tried is reported
 * as working. */
static void look_at_store(struct doctor *d, struct kube_client *c, const char *ns)
{
	const struct config *k = d->config;
	const char *endpoint = k->kubernetes.store.options.endpoint,
		   *secret = k->kubernetes.store.secret;
	bool anonymous = k->kubernetes.store.options.anonymous || k->store.options.anonymous;
	_cleanup_(freep) char *host = NULL;
	struct addrinfo *addresses = NULL;

	if (!str_has_prefix(k->store.uri, "s3:") && !str_has_prefix(k->store.uri, "gs:") &&
	    !k->kubernetes.store.claim) {
		doctor_found(d, DOCTOR_WARNING, "pods",
			     "name an s3:// or gs:// store in cairn.yaml",
			     "can't reach the store %s", k->store.uri);
		return;
	}
	if (!endpoint)
		endpoint = k->store.options.endpoint;
	if (endpoint) { /* "s3.example.org" of "https://s3.example.org:9000/x" */
		const char *at = strstr(endpoint, "://");

		at = at ? at + 3 : endpoint;
		host = at[0] == '[' ? xstrndup(at + 1, strcspn(at + 1, "]"))
				    : xstrndup(at, strcspn(at, ":/"));
	}
	if (host && getaddrinfo(host, NULL, NULL, &addresses) == 0)
		freeaddrinfo(addresses);
	else if (host)
		doctor_found(d, DOCTOR_WARNING, "pods",
			     "see kubernetes.store_options.endpoint; `--deep` tries it in a pod",
			     "are told to find the store at %s, and the name %s isn't known here",
			     endpoint, host);
	if (secret && c && has_secret(c, ns, secret) == 0)
		doctor_found(
			d, DOCTOR_PROBLEM, "pods",
			"kubectl create secret generic NAME --from-literal=AWS_ACCESS_KEY_ID=… "
			"--from-literal=AWS_SECRET_ACCESS_KEY=…",
			"the Secret %s with the store's credentials isn't in the namespace %s",
			secret, ns);
	else if (!secret && !k->kubernetes.store.account && !k->kubernetes.store.claim &&
		 !anonymous)
		doctor_found(d, DOCTOR_WARNING, "pods",
			     "name a Secret as kubernetes.store_secret, or an account as "
			     "kubernetes.store_account",
			     "are given no credentials for the store %s", k->store.uri);
	else
		doctor_found(
			d, DOCTOR_OK, "pods", NULL,
			"are told to use the store %s; whether they reach it is seen with --deep",
			k->store.uri);
}

void doctor_kubernetes(struct doctor *d)
{
	const struct kube_access_options o = {
		.kubeconfig = d->config->kubernetes.access.kubeconfig,
		.foreign = d->config->kubernetes.access.kubeconfig_is_projects,
		.context = d->config->kubernetes.access.context,
		.namespace_ = d->config->kubernetes.access.namespace_
	};
	const struct kube_client_options co = { .qps = 50,
						.burst = 100,
						.retry_for_ns = 10 * NS_PER_S };
	const struct kube_probe_options po = { .lease = d->config->serve.lease,
					       .arrays = d->config->kubernetes.array != 1,
					       .kinds = d->kinds.v,
					       .n_kinds = d->kinds.n };
	struct kube_client *c = NULL;
	struct kube_access a;
	struct err err = { 0 };

	if (kube_access_load(&o, d->cli->arena, &a, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "kubeconfig", NULL, "%s", err.msg);
		return;
	}
	if (a.insecure)
		doctor_found(d, DOCTOR_WARNING, "kubeconfig", "leave out insecure-skip-tls-verify",
			     "anybody in between could read and change everything");
	doctor_found(d, DOCTOR_OK, "kubeconfig", NULL, "%s%s%s: %s, as %s, namespace %s", a.source,
		     a.context ? ", context " : "", a.context ? a.context : "", a.server, who(&a),
		     a.namespace_);
	if (kube_client_new(&a, &co, &c, &err) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "cluster", NULL, "%s", err.msg);
	else
		kube_probe(c, &po, found, d);
	if (!d->config->kubernetes.image)
		doctor_found(
			d, DOCTOR_WARNING, "image",
			"`cairn image --push` makes it; name it as kubernetes.image in cairn.yaml",
			"pods need Cairn's own image, and none is named");
	look_at_store(d, c, a.namespace_);
	kube_client_free(c);
}
