/* model/config.h — cairn.yaml at the project root: store, runner, limits, retention. Precedence: flag, CAIRN_* variable, file, default. */
#ifndef CAIRN_MODEL_CONFIG_H
#define CAIRN_MODEL_CONFIG_H

#include "base/diag.h"
#include "model/pipeline.h"

struct config {
	const char *project_root; /* absolute */
	const char *state_dir;	  /* absolute: <root>/.cairn */
	const char *store_uri;	  /* absolute path of a directory, or an s3://, gs:// URI. Default <state_dir>/store */
	const char *runner;	  /* "local" (default) or "kubernetes" */
	const char *salt;	  /* project salt of every key, or NULL */
	uint32_t jobs;		  /* 0: one a cpu */
	uint32_t cpu_milli;	  /* what local tasks may use in all; 0: what the machine has */
	uint64_t memory_bytes;	  /* likewise */
	int32_t gpus;		  /* -1: find out */
	uint64_t keep_runs;	  /* retention for gc; 0: all */
	int64_t keep_ns;	  /* 0: for ever */
	struct arena *arena;
};

/* start_dir: where to look for the project root from (cairn.yaml, .cairn or .git upward). ERR_NOT_FOUND when there is none: the message
 * says `cairn init`. */
int config_load(const char *start_dir, struct diag_list *diags, struct config **ret, struct err *err);
void config_free(struct config *c);

#endif
