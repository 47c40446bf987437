/* runners/kubernetes/api/access.h — which cluster to use and with which identity: from kubeconfig
 * files, or from the service account of the pod that Cairn runs in.
 *
 * Kubeconfig files are merged as kubectl does: KUBECONFIG is a list of paths separated by ':'; the
 * first file that names a cluster, user, context or current context wins; relative paths start at
 * the file that holds them; missing files are skipped. Without any file, in a pod
 * (KUBERNETES_SERVICE_HOST is set), the pod's service account is used. Source: k8s.io/client-go,
 * tools/clientcmd/api/v1/types.go.
 *
 * Errors: ERR_NOT_FOUND (no file, no such context, cluster or user: the message lists those that
 * exist), ERR_INVALID (with file, line and column), ERR_UNSUPPORTED (an auth-provider; Kubernetes
 * 1.26 removed them).
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_ACCESS_H
#define CAIRN_RUNNERS_KUBERNETES_API_ACCESS_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"

#define KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* A program that gives credentials (client.authentication.k8s.io/v1 or v1beta1). */
struct kube_exec {
	const char *command;
	const char *const *args; /* NULL-terminated, without the command */
	const char *const *env;  /* "NAME=value" */
	const char *api_version;
	const char *install_hint; /* or NULL */
	bool provide_cluster_info;
	const char *cluster_config; /* JSON of the cluster's extension for exec, or NULL */
};

struct kube_access {
	const char *source; /* for people: "/home/a/.kube/config", or "the pod's service account" */
	const char *context; /* or NULL in a pod */
	const char *server;  /* "https://host:6443", no slash at the end */
	const char *namespace_;
	const char *tls_server_name, *ca_pem, *proxy; /* NULL: not set */
	bool insecure;
	/* The identity. Several may be given: a token beside a certificate. */
	const char *cert_pem, *key_pem;
	const char *token, *token_file;
	const char *username, *password;
	const struct kube_exec *exec;
	const char *as_user, *as_uid;
	const char *const *as_groups; /* NULL-terminated, or NULL */
};

struct kube_access_options {
	/* List of paths; NULL: KUBECONFIG, else ~/.kube/config, else the pod's account. */
	const char *kubeconfig;
	const char *context;     /* NULL: current-context */
	const char *namespace_;  /* NULL: the context's, else "default" (in a pod: the pod's) */
	const char *account_dir; /* NULL: KUBE_ACCOUNT_DIR; for tests */
	/* The kubeconfig is a project's: it may name neither a program nor a token file, whose
	 * content would be sent to its server. */
	bool foreign;
};
int kube_access_load(const struct kube_access_options *o, struct arena *arena,
		     struct kube_access *ret, struct err *err);

#endif
