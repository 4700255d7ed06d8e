"""A workflow that the project declares, and an answer part by part."""

from lorebind import Project

with Project.load() as project:
    result = project.run("reply", {"question": "How is a backup restored?"})
    print(result.output)
    for citation in result.citations:
        print(citation.marker, citation.label)

    stream = project.stream("When does an alert go to the operator?", agent="operator")
    for part in stream:
        print(part, end="", flush=True)
    print()
    print(stream.answer.verdict, [citation.uri for citation in stream.answer.citations])
