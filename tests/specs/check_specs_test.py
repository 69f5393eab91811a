#!/usr/bin/python3
"""Breaks a good document in one place at a time and expects check_specs.py to name that place."""

import copy
import sys
import unittest
from pathlib import Path

import yaml

import check_specs

SPECS = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else check_specs.HERE.parents[1] / "specs"
EXECD = check_specs.load(SPECS / "execd.yaml")


def problems(change, table=()):
    document = copy.deepcopy(EXECD)
    change(document)
    checker = check_specs.Checker("execd.yaml", document).run()
    checker.check_coverage(table)
    return checker.problems


class CheckSpecs(unittest.TestCase):
    def expect(self, change, pointer, words, table=()):
        found = problems(change, table)
        self.assertTrue(any(line.startswith("execd.yaml#" + pointer) and words in line for line in found), found)

    def test_the_untouched_document_has_no_problem(self):
        self.assertEqual(problems(lambda d: None), [])

    def test_a_broken_reference_is_named(self):
        def change(d):
            media = d["components"]["responses"]["BadGateway"]["content"]["application/json"]
            media["schema"]["$ref"] = "#/components/schemas/Gone"
        self.expect(change, "/components/responses/BadGateway/content/application~1json/schema/$ref", "does not resolve")

    def test_a_reference_to_another_file_is_refused(self):
        def change(d):
            d["paths"]["/ping"]["get"]["responses"]["200"]["$ref"] = "lifecycle.yaml#/components/responses/Accepted"
        self.expect(change, "/paths/~1ping/get/responses/200/$ref", "does not resolve inside this file")

    def test_an_example_that_breaks_its_schema_is_named(self):
        def change(d):
            media = d["paths"]["/metrics"]["get"]["responses"]["200"]["content"]["application/json"]
            media["example"]["cpu_used_pct"] = 101
        self.expect(change, "/paths/~1metrics/get/responses/200/content/application~1json/example/cpu_used_pct",
                    "greater than the maximum")

    def test_an_event_without_its_number_is_named(self):
        def change(d):
            examples = d["paths"]["/command"]["post"]["responses"]["200"]["content"]["text/event-stream"]["examples"]
            examples["success"]["value"] = '{"type":"stdout","text":"a","timestamp":1}\n\n'
        stream = "/paths/~1command/post/responses/200/content/text~1event-stream"
        self.expect(change, stream + "/examples/success/value[event 0]", "'seq' is a required property")

    def test_a_stream_with_data_prefixes_is_refused(self):
        def change(d):
            media = d["paths"]["/metrics/watch"]["get"]["responses"]["200"]["content"]["text/event-stream"]
            media["example"] = 'data: {"error":"x"}\n\n'
        self.expect(change, "/paths/~1metrics~1watch/get/responses/200/content/text~1event-stream/example", "is not JSON")

    def test_a_missing_example_is_named(self):
        def change(d):
            del d["paths"]["/session"]["post"]["requestBody"]["content"]["application/json"]["example"]
        self.expect(change, "/paths/~1session/post/requestBody/content/application~1json", "body without an example")

    def test_an_undeclared_path_parameter_is_named(self):
        self.expect(lambda d: d["paths"]["/command/{id}/logs"]["get"]["parameters"].pop(0),
                    "/paths/~1command~1{id}~1logs/get", "path parameter {id} is not declared")

    def test_a_repeated_operation_id_is_named(self):
        def change(d):
            d["paths"]["/metrics"]["get"]["operationId"] = "ping"
        self.expect(change, "/paths/~1metrics/get/operationId", "used twice")

    def test_a_response_without_description_is_named(self):
        def change(d):
            d["components"]["responses"]["Done"]["description"] = " "
        self.expect(change, "/components/responses/Done", "without a description")

    def test_a_schema_that_is_none_is_named(self):
        def change(d):
            d["components"]["schemas"]["Metrics"]["properties"]["timestamp"]["type"] = "int"
        self.expect(change, "/components/schemas/Metrics/properties/timestamp/type", "not a JSON Schema")

    def test_an_error_without_code_is_refused(self):
        def change(d):
            d["components"]["schemas"]["ErrorResponse"]["required"] = ["message"]
        self.expect(change, "/components/responses/BadRequest", "an error is JSON with code and message")

    def test_a_null_in_a_response_is_refused(self):
        def change(d):
            content = d["paths"]["/code/context"]["post"]["responses"]["200"]["content"]["application/json"]
            content["example"]["cwd"] = None
        self.expect(change, "/paths/~1code~1context/post/responses/200/content/application~1json/example/cwd",
                    "null in a response")

    def test_an_empty_success_without_length_is_refused(self):
        self.expect(lambda d: d["components"]["responses"]["Done"].pop("headers"), "/components/responses/Done",
                    "Content-Length")

    def test_a_missing_contract_operation_is_named(self):
        self.expect(lambda d: d["paths"]["/files"].pop("delete"), "/paths/~1files/delete", "of the contract is missing",
                    [("DELETE", "/files", ["200"])])

    def test_yaml_with_a_repeated_key_or_a_bare_date_is_refused(self):
        for text in ("a: 1\na: 2\n", "a: 2025-10-09T08:53:20Z\n"):
            with self.assertRaises(yaml.YAMLError):
                yaml.load(text, Loader=check_specs.Loader)


if __name__ == "__main__":
    unittest.main()
