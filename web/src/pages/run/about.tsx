// Everything else on record about the run, and how the command line says it.

import { useLoad } from '../../base/load';
import * as api from '../../api';
import { bytes, duration, shellWord, value } from '../../base/format';
import { part, place, url } from '../../base/route';
import { words } from '../../base/words';
import { Card, Copy, Hash, Time } from '../../parts/bits';
import { FirstOnly } from './firstonly';
import type { RunModel } from './model';

const OUTPUTS_MAX = 300;

export default function About({ model }: { model: RunModel }) {
  const run = model.run!;
  const w = words.run.facts;
  const q = { project: place.value.query.get('project') };
  const tasks = useLoad(
    (s) => api.tasks(run.id, { project: model.project ?? '', limit: 500 }, s),
    [run.id, run.state],
  );
  const outputs = (tasks.value?.tasks ?? []).flatMap((t) =>
    Object.entries((t as { outputs?: Record<string, api.Content> }).outputs ?? {}).map(
      ([name, c]) => ({ task: t.task, name, c }),
    ),
  );
  const commands = [
    `cairn status ${shellWord(run.id)}`,
    `cairn diff ${shellWord(run.id)} last`,
    ...(run.hash ? [`cairn reproduce ${run.hash.slice(0, 16)}`] : []),
  ];
  return (
    <div class="twocol">
      <Card title={words.run.views.about}>
        <dl class="facts">
          <dt>{w.id}</dt>
          <dd class="mono">{run.id}</dd>
          <dt>{w.hash}</dt>
          <dd class="mono">{run.hash ?? words.run.noHash}</dd>
          <dt>{w.pipeline}</dt>
          <dd class="mono">{run.path ?? words.none}</dd>
          <dt>{w.started}</dt>
          <dd>
            <Time at={run.started} how="moment" />
          </dd>
          <dt>{w.duration}</dt>
          <dd>{duration(run.duration_ns)}</dd>
          <dt>{w.commit}</dt>
          <dd class="mono">
            {run.git_commit ?? words.none}{' '}
            {run.git_dirty && <span class="quiet">({words.runs.dirty})</span>}
          </dd>
          {run.git_author && (
            <>
              <dt>{words.runs.cols.author}</dt>
              <dd>{run.git_author}</dd>
            </>
          )}
          {run.message && (
            <>
              <dt>{w.message}</dt>
              <dd class="prewrap">{run.message}</dd>
            </>
          )}
          {run.trial && (
            <>
              <dt>{w.trial}</dt>
              <dd>{words.runs.trial(run.trial.sweep, run.trial.number)}</dd>
            </>
          )}
          {run.reproduces && (
            <>
              <dt>{w.reproduces}</dt>
              <dd>
                <Hash id={run.reproduces} href={url(`/runs/${part(run.reproduces)}`, q)} />
              </dd>
            </>
          )}
          {run.caused_by && (
            <>
              <dt>{w.cause}</dt>
              <dd>
                {run.caused_by.run ? (
                  <a href={url(`/runs/${part(run.caused_by.run)}`, q)}>{run.caused_by.run}</a>
                ) : (
                  run.caused_by.delivery
                )}
              </dd>
            </>
          )}
        </dl>
      </Card>
      <Card title={w.params}>
        {Object.keys(run.params).length === 0 ? (
          <p class="quiet">{words.none}</p>
        ) : (
          <dl class="facts">
            {Object.entries(run.params).map(([k, v]) => (
              <>
                <dt class="mono">{k}</dt>
                <dd class="mono">{value(v)}</dd>
              </>
            ))}
          </dl>
        )}
      </Card>
      <Card title={words.run.views.outputs} flush>
        {outputs.length === 0 ? (
          <p class="body quiet">{words.run.outputsNone}</p>
        ) : (
          <div class="tablewrap">
            <table>
              <tbody>
                {outputs.slice(0, OUTPUTS_MAX).map((o) => (
                  <tr key={`${o.task} ${o.name}`}>
                    <th scope="row">
                      {o.task}/{o.name}
                    </th>
                    <td class="num">{bytes(o.c?.size)}</td>
                    <td>
                      {o.c && (
                        <Hash
                          id={o.c.id}
                          href={url(`/artifacts/${part(o.c.id)}`, { ...q, name: o.name })}
                        />
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {(outputs.length > OUTPUTS_MAX || tasks.value?.next) && (
              <FirstOnly run={run.id} n={Math.min(outputs.length, OUTPUTS_MAX)} />
            )}
          </div>
        )}
      </Card>
      <Card title={w.commands}>
        <ul class="stack close">
          {commands.map((c) => (
            <li key={c} class="row nowraprow copyable">
              <code class="ellipsis">{c}</code>
              <Copy text={c} />
            </li>
          ))}
        </ul>
      </Card>
    </div>
  );
}
