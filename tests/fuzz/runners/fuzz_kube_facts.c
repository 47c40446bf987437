/* Objects of an API server from bytes: facts that can be judged, whatever they are; and words that
 * are text. */
#include <string.h>
#include "base/text/text.h"
#include "runners/kubernetes/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kube_verdict v;
	struct pod_facts pod;
	struct job_facts job;
	json_t *j;

	if (json_parse("fuzz", (const char *)data, size, &j, NULL) < 0)
		return 0;
	if (job_facts_of(&kube_kinds[size % KUBE_KINDS], j, &job) == 0 &&
	    pod_facts_of(j, &pod) == 0) {
		const struct pod_facts *pods[] = { &pod, &pod };

		for (unsigned nodes = 1; nodes < 3; nodes++) {
			kube_judge(
				&(struct kube_observed){
					.job = &job, .pods = pods, .n = 1, .nodes = nodes },
				INT64_MAX / 2, &v);
			if (strlen(v.text) >= sizeof(v.text) ||
			    !text_is_utf8(v.text, strlen(v.text)))
				abort();
			kube_judge(
				&(struct kube_observed){
					.gone = true, .pods = pods, .n = 2, .nodes = nodes },
				0, &v);
		}
		pod_facts_deinit(&pod);
	}
	job_facts_deinit(&job);
	json_decref(j);
	return 0;
}
