"""The official OpenAI client against a real server: whatever it accepts, and how it reports what it refuses."""
import concurrent.futures
import json
import signal
import socket
import subprocess
import time
import unittest
import urllib.request

import openai

from served import BIN, KEY, MODEL, SKIP, Served

QUESTION = [{"role": "user", "content": "What is a mill race? Answer in one sentence."}]


def setUpModule():
    if SKIP:
        raise unittest.SkipTest(SKIP)
    global server, client, model
    server = Served("--max-context", "1024").__enter__()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=300)
    model = client.models.list().data[0].id


def tearDownModule():
    if not SKIP:
        client.close()
        server.__exit__()


def chat(**more):
    return client.chat.completions.create(**{"model": model, "messages": QUESTION, "max_tokens": 24, "temperature": 0, **more})


def complete(prompt="Water flows", **more):
    return client.completions.create(**{"model": model, "prompt": prompt, "max_tokens": 16, "temperature": 0, **more})


def streamed_text(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


class Chat(unittest.TestCase):
    def test_answers_with_usage_and_finish_reason(self):
        answer = chat()
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertGreater(len(choice.message.content.split()), 3)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 10)
        self.assertLessEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        if choice.finish_reason == "length":
            self.assertEqual(answer.usage.completion_tokens, 24)

    def test_a_stream_gives_the_same_text(self):
        whole = chat()
        chunks = list(chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(streamed_text(chunks), whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], whole.choices[0].finish_reason)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertGreater(len(chunks), 5)

    def test_temperature_0_repeats_and_a_seed_repeats_and_seeds_differ(self):
        self.assertEqual(chat().choices[0].message.content, chat().choices[0].message.content)
        warm = [chat(temperature=1.5, seed=seed).choices[0].message.content for seed in (1, 1, 2, 3)]
        self.assertEqual(warm[0], warm[1])
        self.assertGreater(len(set(warm)), 1)

    def test_stop_strings_cut_the_text(self):
        whole = chat().choices[0].message.content
        word = whole.split()[2]
        cut = chat(stop=[word])
        self.assertEqual(cut.choices[0].message.content, whole[:whole.index(word)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        self.assertEqual(streamed_text(chat(stop=[word], stream=True)), whole[:whole.index(word)])

    def test_max_tokens_and_max_completion_tokens(self):
        for name in ("max_tokens", "max_completion_tokens"):
            fields = {"max_tokens": openai.omit, name: 3}
            answer = chat(**fields)
            self.assertEqual(answer.usage.completion_tokens, 3)
            self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_several_choices(self):
        answer = chat(n=3, temperature=1, seed=5)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.assertGreater(len({c.message.content for c in answer.choices}), 1)
        texts = {0: "", 1: "", 2: ""}
        for chunk in chat(n=3, temperature=1, seed=5, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(list(texts.values()), [c.message.content for c in answer.choices])

    def test_logprobs(self):
        entries = chat(logprobs=True, top_logprobs=3, max_tokens=5).choices[0].logprobs.content
        self.assertEqual(len(entries), 5)
        for entry in entries:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 3)
            # Greedy: the chosen token is the best.
            self.assertEqual(entry.top_logprobs[0].token, entry.token)
            self.assertAlmostEqual(entry.top_logprobs[0].logprob, entry.logprob, places=6)
            self.assertEqual(bytes(entry.bytes).decode(), entry.token)

    def test_a_conversation_with_a_system_message(self):
        answer = chat(messages=[{"role": "system", "content": "You answer with one word."},
                                {"role": "user", "content": [{"type": "text", "text": "Say hello."}]},
                                {"role": "assistant", "content": "Hello"},
                                {"role": "user", "content": "Say it again."}])
        self.assertTrue(answer.choices[0].message.content)

    def test_special_tokens_in_a_message_stay_text(self):
        plain = chat(messages=[{"role": "user", "content": "Hi"}], max_tokens=1).usage.prompt_tokens
        spelled = chat(messages=[{"role": "user", "content": "Hi<|im_end|>"}], max_tokens=1).usage.prompt_tokens
        self.assertGreater(spelled, plain + 1)


class Completions(unittest.TestCase):
    def test_text_ids_and_lists_of_both_agree(self):
        body = json.dumps({"prompt": "Water flows"}).encode()
        request = urllib.request.Request(server.url + "/tokenize", body, {"Authorization": "Bearer " + KEY})
        ids = json.load(urllib.request.urlopen(request))["tokens"]
        texts = {complete().choices[0].text, complete(ids).choices[0].text, complete(["Water flows"]).choices[0].text,
                 complete([ids]).choices[0].text}
        self.assertEqual(len(texts), 1)

    def test_several_prompts_keep_their_order(self):
        alone = [complete(prompt).choices[0].text for prompt in ("The sun", "Two plus two is")]
        both = complete(["The sun", "Two plus two is"])
        self.assertEqual([c.text for c in both.choices], alone)

    def test_echo_stream_and_default_length(self):
        answer = complete(max_tokens=openai.omit, echo=True)
        self.assertTrue(answer.choices[0].text.startswith("Water flows"))
        self.assertLessEqual(answer.usage.completion_tokens, 16)
        stream = "".join(chunk.choices[0].text for chunk in complete(echo=True, stream=True))
        self.assertEqual(stream, answer.choices[0].text)

    def test_logprob_lists(self):
        lists = complete(logprobs=2, max_tokens=4).choices[0].logprobs
        self.assertEqual(len(lists.tokens), 4)
        self.assertEqual(lists.text_offset[0], len("Water flows"))
        self.assertTrue(all(max(top.values()) == value for top, value in zip(lists.top_logprobs, lists.token_logprobs)))


    def test_echo_gives_the_prompts_logprobs(self):
        prompt = complete(echo=True, logprobs=2, max_tokens=0)
        both = complete(echo=True, logprobs=2, max_tokens=3)
        self.assertEqual(prompt.choices[0].text, "Water flows")
        self.assertEqual(prompt.usage.completion_tokens, 0)
        lists = both.choices[0].logprobs
        self.assertEqual("".join(lists.tokens), both.choices[0].text)
        self.assertEqual(lists.tokens[:len(prompt.choices[0].logprobs.tokens)], prompt.choices[0].logprobs.tokens)
        self.assertIsNone(lists.token_logprobs[0])
        self.assertIsNone(lists.top_logprobs[0])
        self.assertTrue(all(value <= 0 for value in lists.token_logprobs[1:]))
        # A continuation that is echoed is as probable as when it was drawn.
        again = complete(both.choices[0].text, echo=True, logprobs=2, max_tokens=0).choices[0].logprobs
        for drawn, read in zip(lists.token_logprobs[-3:], again.token_logprobs[-3:]):
            self.assertAlmostEqual(drawn, read, places=2)

    def test_best_of_gives_the_likeliest(self):
        def mean(choice):
            return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)
        fields = {"temperature": 1, "seed": 3, "logprobs": 0, "max_tokens": 8}
        drawn = complete(n=5, **fields)
        ranked = complete(n=2, best_of=5, **fields)
        want = sorted(drawn.choices, key=mean, reverse=True)[:2]
        self.assertEqual([c.text for c in ranked.choices], [c.text for c in want])
        self.assertEqual(ranked.usage.completion_tokens, drawn.usage.completion_tokens)

    def test_beams_are_as_likely_as_the_greedy_answer_or_likelier(self):
        def total(choice):
            return sum(choice.logprobs.token_logprobs)
        fields = {"logprobs": 0, "max_tokens": 6, "extra_body": {"ignore_eos": True}}
        greedy = complete(**fields)
        fields["extra_body"] = {"ignore_eos": True, "use_beam_search": True}
        beams = complete(n=2, best_of=4, **fields)
        self.assertEqual(len({c.text for c in beams.choices}), 2)
        self.assertGreaterEqual(total(beams.choices[0]), total(greedy.choices[0]) - 0.01)
        self.assertGreaterEqual(total(beams.choices[0]), total(beams.choices[1]))

    def test_prompt_logprobs_as_vllm_lists_them(self):
        choice = complete(max_tokens=1, extra_body={"prompt_logprobs": 1}).choices[0]
        self.assertIsNone(choice.prompt_logprobs[0])
        for entries in choice.prompt_logprobs[1:]:
            self.assertIn(1, [entry.get("rank") for entry in entries.values()])


class Parameters(unittest.TestCase):
    """Each changes an answer that would otherwise be the same."""

    def test_biases_and_bad_words_keep_tokens_out(self):
        usual = complete(logprobs=0).choices[0]
        request = urllib.request.Request(server.url + "/tokenize",
                                         json.dumps({"prompt": usual.text, "add_special_tokens": False}).encode(),
                                         {"Authorization": "Bearer " + KEY})
        first = json.load(urllib.request.urlopen(request))["tokens"][0]
        self.assertNotEqual(complete(logprobs=0, logit_bias={first: -100}).choices[0].logprobs.tokens[0], usual.logprobs.tokens[0])
        word = usual.text.split()[0]
        self.assertNotIn(word, complete(extra_body={"bad_words": [word]}).choices[0].text.split())
        self.assertEqual(complete(logit_bias={first: 100}, max_tokens=3, logprobs=0).choices[0].logprobs.tokens,
                         [usual.logprobs.tokens[0]] * 3)

    def test_penalties_end_repetition(self):
        prompt = "one two three one two three one two three one two three one two"
        usual = complete(prompt).choices[0].text
        self.assertNotEqual(complete(prompt, frequency_penalty=2).choices[0].text, usual)
        self.assertNotEqual(complete(prompt, presence_penalty=2).choices[0].text, usual)
        self.assertNotEqual(complete(prompt, extra_body={"repetition_penalty": 2}).choices[0].text, usual)

    def test_where_an_answer_ends(self):
        usual = complete().choices[0].text
        word = usual.split()[1]
        cut = usual.index(word)
        kept = complete(stop=word, extra_body={"include_stop_str_in_output": True}).choices[0]
        self.assertEqual(kept.text, usual[:cut] + word)
        self.assertEqual(complete(stop=word, extra_body={"min_tokens": 16}).choices[0].text, usual)

    def test_a_timeout_is_an_error_of_its_own(self):
        with self.assertRaises(openai.InternalServerError) as caught:
            chat(max_tokens=900, extra_body={"timeout": 0.02, "ignore_eos": True})
        self.assertEqual((caught.exception.status_code, caught.exception.code), (504, "timeout"))

    def test_what_has_no_meaning_together_names_both(self):
        for fields, param, other in (({"best_of": 2, "stream": True}, "best_of", "stream"),
                                     ({"stop": "a", "extra_body": {"use_beam_search": True}}, "stop", "use_beam_search"),
                                     ({"extra_body": {"prompt_logprobs": 1}, "stream": True}, "prompt_logprobs", "stream")):
            with self.assertRaises(openai.BadRequestError) as caught:
                complete(**fields)
            self.assertEqual(caught.exception.param, param)
            self.assertIn(other, caught.exception.message)


class Errors(unittest.TestCase):
    def test_they_are_the_clients_exceptions_and_name_the_field(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            chat(model="no-such-model")
        self.assertEqual(caught.exception.param, "model")
        for field, value in (("temperature", 3), ("top_p", 2), ("max_tokens", -1), ("n", 0), ("stop", [""]),
                             ("presence_penalty", 3), ("logit_bias", {"999999999": 1}),
                             ("tools", [{"type": "function", "function": {"name": "f"}}])):
            with self.assertRaises(openai.BadRequestError, msg=field) as caught:
                chat(**{field: value})
            self.assertEqual(caught.exception.param, field)

    def test_a_prompt_over_the_context_says_both_lengths(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            complete("word " * 3000)
        self.assertIn("1024", str(caught.exception))

    def test_a_wrong_key_is_an_authentication_error(self):
        with openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0) as stranger:
            self.assertRaises(openai.AuthenticationError, stranger.models.list)

    def test_health_needs_no_key(self):
        self.assertEqual(urllib.request.urlopen(server.url + "/health").status, 200)


class Together(unittest.TestCase):
    def test_concurrent_answers_equal_solo_ones(self):
        prompts = [f"{word} is" for word in ("Water", "Iron", "A wheel", "The moon", "Bread", "Paper", "A river", "Ice")]
        solo = [complete(prompt, temperature=0.9, seed=i).choices[0].text for i, prompt in enumerate(prompts)]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda i: complete(prompts[i], temperature=0.9, seed=i).choices[0].text, range(len(prompts))))
        self.assertEqual(together, solo)

    def test_a_client_that_leaves_frees_its_place(self):
        with chat(max_tokens=900, stream=True, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        text = chat(max_tokens=4)
        self.assertEqual(text.usage.completion_tokens, 4)
        request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": "Bearer " + KEY})
        until = time.monotonic() + 10
        while 'headrace_requests{state="running"} 0' not in urllib.request.urlopen(request).read().decode():
            self.assertLess(time.monotonic(), until, "the request runs on")
            time.sleep(0.1)


class Models(unittest.TestCase):
    def test_the_list_and_one(self):
        self.assertEqual([m.id for m in client.models.list()], [model])
        self.assertEqual(client.models.retrieve(model).id, model)
        self.assertRaises(openai.NotFoundError, client.models.retrieve, "nothing")


class Process(unittest.TestCase):
    def test_a_port_in_use_is_exit_4_and_says_so(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            result = subprocess.run([BIN, "serve", MODEL, "--port", port], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 4)
        self.assertIn("in use", result.stderr)

    def test_ctrl_c_ends_with_exit_0(self):
        with Served(key="") as own:
            with openai.OpenAI(base_url=own.url + "/v1", api_key="none") as anyone:
                self.assertTrue(anyone.models.list().data)
            self.assertEqual(own.stop(signal.SIGINT), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
