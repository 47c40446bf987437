/* engine/cli/upkeep/doctor.h — shared by the parts of `cairn doctor`. Each check adds findings and
 * depends on no other check. */
#ifndef CAIRN_CLI_UPKEEP_DOCTOR_H
#define CAIRN_CLI_UPKEEP_DOCTOR_H

#include "base/mem.h"
#include "cli/cli.h"

enum doctor_verdict { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };

struct doctor {
	struct cli *cli;
	const struct config *config;
	json_t *checks;          /* or NULL */
	VEC(const char *) kinds; /* `kubernetes.as` of steps over several nodes, each once */
	bool problem;
};

/* `advice`: what to do about it; may be NULL. */
void doctor_found(struct doctor *d, enum doctor_verdict v, const char *name, const char *advice,
		  const char *fmt, ...) _printf_(5, 6);

void doctor_kubernetes(struct doctor *d);
/* Runs a pod, and removes it again. */
void doctor_pod(struct doctor *d);

#endif
