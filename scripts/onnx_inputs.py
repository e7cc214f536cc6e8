"""Inputs for the models of scripts/onnx_models.py, drawn from a seed: what such models see, in the shapes and with the statistics that
they expect. Needs numpy, and pillow for text.
"""
import dataclasses

import numpy as np

TEXTS = ("Headrace 2026, in order", "A quick brown fox, 42 x", "Invoice 7315: 184.50")


@dataclasses.dataclass
class Case:
    label: str
    steps: list  # inputs of the runs, one after another: {name: array}
    carried: dict = dataclasses.field(default_factory=dict)  # {output: the input of the next step that it becomes}

    def runs(self, run):
        """(inputs, outputs) of each step by `run`, which gives outputs for inputs; what one step gives to the next is its own."""
        given = {}
        for step in self.steps:
            inputs = step | given
            outputs = run(inputs)
            given = {target: outputs[source] for source, target in self.carried.items()}
            yield inputs, outputs


def smooth_noise(rng, height, width, channels=3):
    """Amplitudes that fall with the frequency, as in photographs: [channels, height, width] in 0 to 1, channels alike but for a tint."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    amplitude = 1 / np.maximum(frequency, 1 / max(height, width))
    layers = []
    for _ in range(channels + 1):
        spectrum = amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape))
        layer = np.fft.irfft2(spectrum, (height, width))
        layers.append(layer / layer.std())
    image = layers[0] + 0.4 * np.stack(layers[1:])
    return np.clip(0.5 + 0.2 * image, 0, 1)


def photographs(rng, batch, size):
    """Normalized as torchvision does it."""
    mean, deviation = (np.array(row)[:, None, None] for row in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return np.stack([(smooth_noise(rng, size, size) - mean) / deviation for _ in range(batch)]).astype(np.float32)


def picture_with_text(rng, height, width, lines):
    """`lines`: (left, top, font size, text). Dark text on paper with stains, normalized to -1 to 1: [3, height, width]."""
    from PIL import Image, ImageDraw, ImageFont

    ink = Image.new("L", (width, height), 0)
    for left, top, size, text in lines:
        ImageDraw.Draw(ink).text((left, top), text, fill=255, font=ImageFont.load_default(size))
    paper = 0.8 + 0.25 * (smooth_noise(rng, height, width) - 0.5)
    mask = np.asarray(ink, np.float64) / 255
    return ((paper * (1 - mask) + 0.1 * mask) * 2 - 1).clip(-1, 1).astype(np.float32)


def text_lines(rng, batch, width):
    """Lines 48 pixels high, as PP-OCR's recognizer and classifier take them, filled with text."""
    from PIL import ImageFont

    lines = []
    for n in range(batch):
        text = TEXTS[n % len(TEXTS)]
        size = int(min(34, 100 * (width - 12) / ImageFont.load_default(100).getlength(text)))
        lines.append(picture_with_text(rng, 48, width, [(6, 22 - 0.6 * size, size, text)]))
    return np.stack(lines)


def page(rng, height, width):
    lines = [(24 + 40 * (n % 3), 20 + 56 * n, 18 + 4 * (n % 3), TEXTS[n % len(TEXTS)]) for n in range(height // 56)]
    return picture_with_text(rng, height, width, lines)[None]


def token_inputs(rng, vocabulary, lengths, seq):
    """Texts of `lengths` tokens, padded to `seq`; the second half of each is another segment."""
    ids, mask, types = (np.zeros((len(lengths), seq), np.int64) for _ in range(3))
    for row, length in enumerate(lengths):
        ids[row, :length] = rng.integers(1, vocabulary, length)
        mask[row, :length] = 1
        types[row, length // 2:length] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def speech(rng, rate, seconds):
    """A voice's harmonics, whose pitch and loudness change, pauses and a little noise: [samples]."""
    time = np.arange(int(rate * seconds)) / rate
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time) + 10 * np.sin(2 * np.pi * 2.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = (500, 1500, 2500)
    sound = np.zeros_like(time)
    for harmonic in range(1, 25):
        frequency = harmonic * pitch
        sound += sum(np.exp(-((frequency - formant) / 250) ** 2) for formant in formants) * np.sin(harmonic * phase)
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * time), 0, None) * (np.sin(2 * np.pi * 0.9 * time) > -0.3)
    sound = 0.3 * syllables * sound / np.abs(sound).max() + 0.002 * rng.standard_normal(time.size)
    return sound.astype(np.float32)


def voice_case(label, rng, rate, samples, context, chunks, hidden, batch=1):
    """Chunks of `samples`, each behind the last `context` samples before it, as the package silero-vad feeds them; the state goes from
    chunk to chunk."""
    sounds = np.stack([speech(rng, rate, samples * chunks / rate) for _ in range(batch)])
    padded = np.pad(sounds, ((0, 0), (context, 0)))
    steps = [{"input": padded[:, at:at + context + samples].copy(), "sr": np.array(rate, np.int64)}
             for at in range(0, samples * chunks, samples)]
    steps[0]["state"] = np.zeros((2, batch, hidden), np.float32)
    return Case(label, steps, {"stateN": "state"})


def one_rate(case):
    """For a model of one sample rate."""
    steps = [{name: array for name, array in step.items() if name != "sr"} for step in case.steps]
    return Case(case.label, steps, case.carried)


def image_cases(rng, size):
    return [Case(f"batch {batch}", [{"image": photographs(rng, batch, size)}]) for batch in (1, 2)]


def bert_cases(rng, vocabulary, shapes):
    return [Case(f"{len(lengths)}x{seq}, tokens {'+'.join(map(str, lengths))}", [token_inputs(rng, vocabulary, lengths, seq)])
            for seq, lengths in shapes]


def line_cases(rng):
    return [Case(f"{batch}x48x{width}", [{"x": text_lines(rng, batch, width)}]) for batch, width in ((1, 320), (2, 480))]


def page_cases(rng, sizes):
    return [Case(f"1x{height}x{width}", [{"x": page(rng, height, width)}]) for height, width in sizes]


BERT_SHAPES = ((7, [7]), (24, [24, 11]), (128, [128]))
TINY_SHAPES = ((5, [5]), (9, [9, 4]))
CASES = {
    "resnet50": lambda rng: image_cases(rng, 224),
    "mobilenet_v2": lambda rng: image_cases(rng, 224),
    "resnet_tiny": lambda rng: image_cases(rng, 32),
    "mobilenet_tiny": lambda rng: image_cases(rng, 32),
    "bert_base": lambda rng: bert_cases(rng, 30522, BERT_SHAPES),
    "bert_large": lambda rng: bert_cases(rng, 30522, BERT_SHAPES[:2]),
    "minilm": lambda rng: bert_cases(rng, 30522, BERT_SHAPES),
    "bert_tiny": lambda rng: bert_cases(rng, 100, TINY_SHAPES),
    "ppocr_det": lambda rng: page_cases(rng, ((320, 480), (640, 640))),
    "ppocr_cls": line_cases,
    "ppocr_rec": line_cases,
    "ocr_tiny": lambda rng: page_cases(rng, ((32, 32), (32, 64))),
    "silero_vad": lambda rng: [voice_case("16 kHz, 20 chunks", rng, 16000, 512, 64, 20, 128),
                               voice_case("8 kHz, 20 chunks", rng, 8000, 256, 32, 20, 128)],
    "silero_vad_16k": lambda rng: [one_rate(voice_case("20 chunks", rng, 16000, 512, 64, 20, 128))],
    "qdq_image_tiny": lambda rng: image_cases(rng, 24),
    "qdq_mlp_tiny": lambda rng: [Case(f"{batch}x{seq}", [{"x": rng.standard_normal((batch, seq, 48), dtype=np.float32)}])
                                 for batch, seq in ((1, 5), (2, 9))],
    "vad_tiny": lambda rng: [voice_case("16 kHz, 3 chunks", rng, 16000, 64, 16, 3, 16),
                             voice_case("8 kHz, 3 chunks", rng, 8000, 24, 8, 3, 16, batch=2)],
}


def cases(name):
    """The same on every machine with the same numpy and pillow."""
    return CASES[name](np.random.default_rng(17))


def bench_inputs(name, batch):
    """Of one run at full size."""
    rng = np.random.default_rng(23)
    if name in ("resnet50", "mobilenet_v2"):
        return {"image": photographs(rng, batch, 224)}
    if name in ("bert_base", "bert_large", "minilm"):
        return token_inputs(rng, 30522, [128] * batch, 128)
    if name == "ppocr_det":
        return {"x": np.concatenate([page(rng, 640, 640) for _ in range(batch)])}
    if name in ("ppocr_cls", "ppocr_rec"):
        return {"x": text_lines(rng, batch, 192 if name == "ppocr_cls" else 320)}
    if name in ("silero_vad", "silero_vad_16k"):
        case = voice_case("", rng, 16000, 512, 64, 1, 128, batch)
        return (case if name == "silero_vad" else one_rate(case)).steps[0]
    raise KeyError(name)
