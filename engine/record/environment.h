/* record/environment.h — where a run ran: kernel, cpu, C library, GPUs, what tasks may see of the
 * machine.
 *
 * For the record, and to be held beside outputs that differ; never for a key. Read from /proc and
 * /sys, quickly: no program is started.
 */
#ifndef CAIRN_RECORD_ENVIRONMENT_H
#define CAIRN_RECORD_ENVIRONMENT_H

#include "base/text/json.h"

/* A new object. Keys: cairn, cpu_flags, cpu_model, cpus, cpus_usable, gpu_driver, gpus, host,
 * kernel, libc, machine, memory_bytes, variables. */
json_t *environment_json(void);

#endif
