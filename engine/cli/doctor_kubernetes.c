/* `cairn doctor --on kubernetes`: the cluster that cairn.yaml and the kubeconfig name. */
#include "cli/doctor.h"
#include "runners/kubernetes/probe.h"

static void found(void *arg, enum kube_finding v, const char *name, const char *detail, const char *advice)
{
	static const enum doctor_verdict verdicts[] = { [KUBE_FINE] = DOCTOR_OK, [KUBE_WARNING] = DOCTOR_WARNING, [KUBE_PROBLEM] = DOCTOR_PROBLEM };

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

void doctor_kubernetes(struct doctor *d)
{
	const struct kube_access_options o = { .kubeconfig = d->config->kubernetes.kubeconfig, .context = d->config->kubernetes.context,
					       .namespace_ = d->config->kubernetes.namespace_ };
	const struct kube_client_options co = { .qps = 50, .burst = 100, .patience_ns = 10 * NS_PER_S };
	const struct kube_probe_options po = { .lease = d->config->serve.lease, .arrays = d->config->kubernetes.array != 1 };
	struct kube_client *c = NULL;
	struct kube_access a;
	struct err err = { 0 };

	if (kube_access_load(&o, d->cli->arena, &a, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "kubeconfig", NULL, "%s", err.msg);
		return;
	}
	if (a.insecure)
		doctor_found(d, DOCTOR_WARNING, "kubeconfig", "leave out insecure-skip-tls-verify", "anybody in between could read and change all");
	doctor_found(d, DOCTOR_OK, "kubeconfig", NULL, "%s%s%s: %s, as %s, namespace %s", a.source, a.context ? ", context " : "",
		     a.context ? a.context : "", a.server, who(&a), a.namespace_);
	if (kube_client_new(&a, &co, &c, &err) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "cluster", NULL, "%s", err.msg);
	else
		kube_probe(c, &po, found, d);
	kube_client_free(c);
	if (!d->config->kubernetes.image)
		doctor_found(d, DOCTOR_WARNING, "image", "`cairn image --push` makes it; name it as kubernetes.image in cairn.yaml",
			     "pods need Cairn's own image, and none is named");
	if (str_has_prefix(d->config->store_uri, "s3:") || str_has_prefix(d->config->store_uri, "gs:"))
		doctor_found(d, DOCTOR_OK, "pods", NULL, "would reach the store at %s", d->config->store_uri);
	else
		doctor_found(d, DOCTOR_WARNING, "pods", "name an s3:// or gs:// store in cairn.yaml", "can't reach the store %s", d->config->store_uri);
}
