/* runners/kubernetes/api/credential.h — the credentials of requests, renewed when they expire.
 *
 * Sources: a token; a file that holds one (read again every minute, because the kubelet renews it);
 * a user and a password; or a program that gives a token or a client certificate with an expiry
 * time (client.authentication.k8s.io/v1; Source: k8s.io/client-go, plugin/pkg/client/auth/exec).
 * Any thread.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_CREDENTIAL_H
#define CAIRN_RUNNERS_KUBERNETES_API_CREDENTIAL_H

#include <stdint.h>
#include "base/text/str.h"
#include "runners/kubernetes/api/access.h"

struct kube_credential;
struct kube_credential *kube_credential_new(const struct kube_access *a); /* `a` outlives it */
void kube_credential_free(struct kube_credential *c);                     /* NULL is fine */

/* The value of the header Authorization, or nothing. refused: the server answered 401 to what the
 * last call gave. ERR_INVALID, ERR_NOT_FOUND (the program is missing; the message has its install
 * hint), ERR_IO. */
int kube_credential_header(struct kube_credential *c, bool refused, struct str *out,
			   struct err *err);
/* The current client certificate and key, PEM; "" when there is none. *ret_generation changes, too.
 */
int kube_credential_certificate(struct kube_credential *c, struct str *ret_cert,
				struct str *ret_key, uint64_t *ret_generation, struct err *err);

#endif
