/* engine/record/environment.h — where a run executed: kernel, cpu, C library, GPUs, and the
 * variables that tasks see.
 *
 * For the record, to explain outputs that differ; never part of a key. Read from /proc and /sys,
 * quickly: no program is started.
 */
#ifndef CAIRN_RECORD_ENVIRONMENT_H
#define CAIRN_RECORD_ENVIRONMENT_H

#include "base/text/json.h"

/* A new object. Keys: cairn, cpu_flags, cpu_model, cpus, cpus_usable, gpu_driver, gpus, host,
 * kernel, libc, machine, memory_bytes, variables. */
json_t *environment_json(void);

#endif
