"""Trainers of others in real steps: what they log is the step's curves.

Their packages are large, so each test is skipped without them.
"""

import sys

import pytest
from test_step import ENV

import cairn

STEP = f"""
pipeline: demo
params: {{lr: 0.05}}
steps:
  train:
    run: {sys.executable} train.py
    params: [lr]
    env: {ENV}
    outputs: {{work: work/}}
    series: log.jsonl
    metrics: metrics.json
"""

HUGGING_FACE = """
import torch, transformers
import cairn
from cairn.huggingface import CairnCallback

class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x, labels):
        y = self.layer(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}

rows = [{"x": torch.tensor([i / 16.0]), "labels": torch.tensor([i / 8.0])} for i in range(32)]
args = transformers.TrainingArguments(
    output_dir=str(cairn.outputs.work),
    num_train_epochs=4,
    logging_steps=4,
    per_device_train_batch_size=8,
    evaluation_strategy="epoch",
    save_strategy="no",
    report_to=[],
    learning_rate=cairn.params().lr,
    seed=1,
    no_cuda=True,
)
trainer = transformers.Trainer(
    model=Line(),
    args=args,
    train_dataset=rows,
    eval_dataset=rows,
    callbacks=[CairnCallback()],
)
trainer.train()
"""

LIGHTNING = """
import torch
try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl
import cairn
from cairn.lightning import CairnLogger

class Line(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, _):
        loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

pl.seed_everything(1)
x = torch.arange(32).float().reshape(-1, 1) / 16
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=8)
trainer = pl.Trainer(
    max_epochs=4,
    logger=CairnLogger(),
    log_every_n_steps=2,
    accelerator="cpu",
    enable_checkpointing=False,
    enable_progress_bar=False,
    default_root_dir=str(cairn.outputs.work),
)
trainer.fit(Line(cairn.params().lr), loader)
"""


def curve(run, name):
    """(step, value) of a curve, from what the step's series has."""
    rows = run.artifact("train/series").load(kind="jsonl")
    return [(r["step"], r[name]) for r in rows if name in r]


def test_the_trainer_of_hugging_face(project):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    project(STEP, train_py=HUGGING_FACE)
    run = cairn.run()
    losses = curve(run, "loss")
    assert [step for step, _ in losses] == [4, 8, 12, 16]
    assert losses[-1][1] < losses[0][1]
    assert run.metrics["train"]["eval_loss"] == pytest.approx(curve(run, "eval_loss")[-1][1])


def test_the_trainer_of_lightning(project):
    pytest.importorskip("torch")
    try:
        import lightning.pytorch  # noqa: F401
    except ImportError:
        pytest.importorskip("pytorch_lightning")
    project(STEP.replace("    metrics: metrics.json\n", ""), train_py=LIGHTNING)
    losses = curve(cairn.run(), "loss")
    assert len(losses) == 8 and losses[-1][1] < losses[0][1]
