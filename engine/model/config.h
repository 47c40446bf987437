/* engine/model/config.h — cairn.yaml at the project root: store, runner, limits, retention. Precedence: flag, CAIRN_* variable, file,
 * default. A relative path in the file is seen from the project root, one in a variable from the working directory.
 *
 *	store: .cairn/store          # a directory, s3://bucket/prefix or gs://bucket/prefix            CAIRN_STORE
 *	cache: read-write            # of a shared store: read-only takes from it but sends nothing, off is      CAIRN_CACHE
 *	                             # the directory alone
 *	cache_size: 200Gi            # what .cairn/store may take in front of a shared store; least recently used goes first
 *	store_options: {endpoint: https://s3.example.org, region: eu-1, profile: team, style: path, ca: certs/ca.pem}   # anonymous: true: unsigned
 *	reference_above: 1Gi         # inputs by URI that are larger are pinned and fetched when they are needed, not copied into the store
 *	runner: local                # or kubernetes                                                    CAIRN_RUNNER
 *	salt: v2                     # part of every key: change it to start anew
 *	jobs: 8                      # tasks at once; 0 or nothing: as many as there are cpus           CAIRN_JOBS
 *	resources: {cpu: 8, memory: 32Gi, gpu: 1}   # what local tasks may use in all
 *	retention: {runs: 50, age: 90d}             # what `cairn store gc` keeps
 *	kubernetes: {context: lab, namespace: ml, kubeconfig: conf/lab.yaml}   # which cluster; else what kubectl would take
 *
 * CAIRN_DIR puts the state elsewhere than into .cairn/.
 */
#ifndef CAIRN_MODEL_CONFIG_H
#define CAIRN_MODEL_CONFIG_H

#include "base/diag.h"
#include "model/pipeline.h"

#define CONFIG_JOBS_MAX 100000

struct config {
	const char *project_root; /* absolute */
	const char *state_dir;	  /* absolute: <root>/.cairn, or CAIRN_DIR */
	const char *store_uri;	  /* absolute path of a directory, or an s3://, gs:// URI. Default <state_dir>/store */
	const char *local_store;  /* absolute path of the directory in front of a shared store: <state_dir>/store */
	const char *cache;	  /* "read-write" (default), "read-only" or "off" */
	uint64_t cache_bytes;	  /* 0: any number */
	struct {
		const char *endpoint, *region, *profile, *ca; /* NULL: not said; ca is an absolute path */
		const char *style;			      /* "auto" (default), "path" or "virtual" */
		bool anonymous;
	} store_options;
	uint64_t reference_above; /* bytes of an input by URI above which it is referenced, not copied. Default 1 GiB */
	const char *runner;	  /* "local" (default) or "kubernetes" */
	struct {
		const char *context, *namespace_, *kubeconfig; /* NULL: not said; kubeconfig is an absolute path */
	} kubernetes;
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
 * says `cairn init`. All that is wrong with the file and the variables goes to `diags`; then ERR_INVALID. */
int config_load(const char *start_dir, struct diag_list *diags, struct config **ret, struct err *err);
void config_free(struct config *c); /* NULL is fine */

#endif
