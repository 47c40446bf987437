// The runs of examples/digits and examples/fashion, by one server of both projects: tests/cli/run/examples.t made them.

import { accessible, api, main, open, same, until } from './drive.mjs';

const enc = encodeURIComponent;

async function withPage(what) {
  const b = await open();
  try {
    await what(b.page, b);
  } finally {
    await b.close();
  }
}

const newest = async (project) => (await api(`/api/v1/runs?project=${project}&state=succeeded&limit=1`)).runs[0].id;
const output = async (project, run, task, name) => (await api(`/api/v1/runs/${run}/task?project=${project}&task=${enc(task)}`)).outputs.find((o) => o.name === name).content.id;
const picture = async (page, what) => until(() => page.locator('.picture img').evaluate((i) => i.complete && i.naturalWidth > 0), what, 120);

export const checks = {
  async digits() {
    await withPage(async (page, { go }) => {
      await go('/runs');
      const table = page.getByRole('table', { name: 'Runs' });
      await table.getByRole('link', { name: 'digits' }).first().waitFor();
      const { runs } = await api('/api/v1/runs?project=digits&state=succeeded&limit=10');
      const [last, first] = [runs.find((r) => r.params.show === 20).id, runs.at(-1).id];
      await go(`/runs/${first}?project=digits&open=train`);
      const tree = page.getByRole('tree', { name: 'Steps' });
      await tree.getByRole('treeitem').filter({ hasText: 'kernel=rbf,c=10' }).waitFor();
      same(await tree.getByRole('treeitem').count(), 9, 'five steps and four tasks');
      await accessible(page, 'a run of digits');
      // Why the report was made again, and nothing else.
      await go(`/runs/${last}/tasks/report?project=digits&tab=overview`);
      await until(async () => /show\s+12\s+→\s+20/.test(await page.locator('.changes').innerText()), 'the reason', 120);
      await go(`/runs/${first}/tasks/evaluate?project=digits&tab=metrics`);
      await page.getByText('accuracy', { exact: true }).first().waitFor();
      const report = await output('digits', first, 'report', 'report');
      await go(`/artifacts/${report}?project=digits&path=confusion.svg`);
      await picture(page, 'the confusion matrix');
      await page.getByRole('link', { name: 'Who made these bytes' }).click();
      const nodes = page.getByRole('list', { name: 'Nodes' });
      await nodes.getByRole('button', { name: /train/ }).first().waitFor();
      await nodes.getByRole('button', { name: /^extract/ }).first().waitFor();
      await go(`/compare?runs=${first},${last}&project=digits`);
      await page.getByRole('row').filter({ hasText: 'show' }).filter({ hasText: '20' }).first().waitFor();
    });
  },

  async fashion() {
    await withPage(async (page, { go }) => {
      const run = await newest('fashion');
      const first = (await api('/api/v1/runs?project=fashion&state=succeeded&limit=10')).runs.at(-1).id;
      const shards = (await api(`/api/v1/runs/${run}/graph?project=fashion`)).steps.find((s) => s.step === 'augment').tasks;
      await go(`/runs/${run}?project=fashion`);
      const tree = page.getByRole('tree', { name: 'Steps' });
      await tree.getByRole('treeitem').filter({ hasText: 'augment' }).filter({ hasText: `${shards}` }).waitFor();
      // Of the two ranks, the first one prints; the loss is a curve; the second run executed nothing.
      await go(`/runs/${first}/tasks/train?project=fashion&tab=log&rank=0`);
      await page.getByRole('group', { name: 'Log of train' }).getByText(/val_accuracy=/).first().waitFor();
      await go(`/runs/${first}/tasks/train?project=fashion&tab=metrics`);
      await page.getByRole('img', { name: /^loss: train/ }).waitFor();
      await go(`/runs/${run}?project=fashion&view=tasks&tstate=executed`);
      await until(async () => (await page.getByRole('table', { name: 'Tasks' }).getByRole('row').count()) <= 1, 'all were hits', 120);
      // Shards with labels, predictions as a table, the report in its sandbox.
      const train = await output('fashion', first, 'shard', 'train');
      const { entries } = await api(`/api/v1/content/${train}/entries?project=fashion`);
      await go(`/artifacts/${train}?project=fashion&path=${enc(entries.find((e) => e.name.endsWith('.tar')).name)}`);
      await page.locator('.gallery .tag').first().waitFor();
      const predictions = await output('fashion', first, 'predict', 'predictions');
      await go(`/artifacts/${predictions}?project=fashion&name=predictions.csv`);
      await page.getByRole('table', { name: 'Table' }).getByText('predicted').first().waitFor();
      const report = await output('fashion', first, 'evaluate', 'report');
      const names = (await api(`/api/v1/content/${report}/entries?project=fashion`)).entries.map((e) => e.name);
      const svg = names.find((n) => n.endsWith('.svg'));
      await go(`/artifacts/${report}?project=fashion&path=${enc(svg)}`);
      await picture(page, svg);
      await accessible(page, 'a picture of the report');
    });
  },
};

await main(checks);
