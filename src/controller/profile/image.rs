//! Image patterns and environment names by which components are recognised, per release.
//!
//! The text of a pattern is part of what is hashed: a change to it changes the input hash of every
//! workload that it matches.

/// A name, and the images it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePattern {
    /// What an image of this kind is called.
    pub name: &'static str,
    /// A regular expression, searched for in the whole image reference.
    pub pattern: &'static str,
}

/// A name, and the environment variable that gives it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvName {
    /// The environment variable; its value is not read.
    pub variable: &'static str,
    /// What it gives away.
    pub name: &'static str,
}

const fn image(name: &'static str, pattern: &'static str) -> ImagePattern {
    ImagePattern { name, pattern }
}

const fn env(variable: &'static str, name: &'static str) -> EnvName {
    EnvName { variable, name }
}

/// `base` with `rows` inserted before position `at`; `K` is the length of the result.
const fn insert<const N: usize, const M: usize, const K: usize>(
    base: [ImagePattern; N],
    at: usize,
    rows: [ImagePattern; M],
) -> [ImagePattern; K] {
    // Evaluated by the compiler, which refuses a length that does not fit.
    assert!(K == N + M && at <= N);
    let mut out = [image("", ""); K];
    let mut i = 0;
    while i < K {
        out[i] = if i < at {
            base[i]
        } else if i < at + M {
            rows[i - at]
        } else {
            base[i - M]
        };
        i += 1;
    }
    out
}

/// Runtimes known from 1.0 to 1.3. The first that matches wins.
pub const RUNTIMES_1_0: [ImagePattern; 10] = [
    image("vllm", r"^vllm/.*"),
    image(
        "vllm",
        r"^ghcr\.io/[a-zA-Z0-9.\-_]+/vllm[a-zA-Z0-9.\-_]*(?:[:@]|$)",
    ),
    image("tgi", r"^huggingface/text-generation-inference.*"),
    image("triton", r"^nvcr\.io/nvidia/tritonserver.*"),
    image("ollama", r"^ollama/ollama.*"),
    image("ray-serve", r"^(?:.*/)?rayproject/ray(?:[:@]|$)"),
    image("llm-d", r"^(?:.*/)?llm-d/[a-zA-Z0-9.\-_]+(?:[:@]|$)"),
    image("sglang", r"^lmsysorg/sglang.*"),
    image("lmdeploy", r"^openmmlab/lmdeploy.*"),
    image("tei", r"^ghcr\.io/huggingface/text-embeddings-inference.*"),
];

/// Runtimes known from 1.4 to 1.5.
pub const RUNTIMES_1_4: [ImagePattern; 15] = {
    const WITH_TGI: [ImagePattern; 11] = insert(
        RUNTIMES_1_0,
        3,
        [image(
            "tgi",
            r"^ghcr\.io/huggingface/text-generation-inference.*",
        )],
    );
    insert(
        WITH_TGI,
        11,
        [
            image("nim", r"^nvcr\.io/nim/.*"),
            image("vllm", r"^nvcr\.io/nvidia/ai-dynamo/vllm-runtime.*"),
            image("sglang", r"^nvcr\.io/nvidia/ai-dynamo/sglang-runtime.*"),
            image(
                "tensorrt-llm",
                r"^nvcr\.io/nvidia/ai-dynamo/tensorrtllm-runtime.*",
            ),
        ],
    )
};

/// Runtimes known from 1.6. The last three patterns are inferred from the images they are for.
pub const RUNTIMES_1_6: [ImagePattern; 24] = {
    const WITH_ROCM: [ImagePattern; 16] =
        insert(RUNTIMES_1_4, 2, [image("vllm", r"^rocm/vllm(?:[:@/]|$)")]);
    insert(
        WITH_ROCM,
        16,
        [
            image("litellm", r"^ghcr\.io/berriai/litellm.*"),
            image(
                "vllm",
                r"^public\.ecr\.aws/q9t5s3a7/vllm-cpu-release-repo(?:[:@]|$)",
            ),
            image("infinity", r"^michaelf34/infinity(?:[:@]|$)"),
            image("faster-whisper", r"^fedirz/faster-whisper-server(?:[:@]|$)"),
            image(
                "llama.cpp",
                r"^ghcr\.io/(?:ggml-org|ggerganov)/llama\.cpp(?:[:@]|$)",
            ),
            image("ray-serve", r"^(?:.*/)?rayproject/ray-ml(?:[:@]|$)"),
            image("vllm", r"^lmcache/vllm-openai(?:[:@]|$)"),
            image(
                "vllm",
                r"^us-docker\.pkg\.dev/vertex-ai/vertex-vision-model-garden-dockers/pytorch-vllm-serve(?:[:@]|$)",
            ),
        ],
    )
};

/// Vector databases. Every pattern that matches is reported.
pub const VECTOR_DATABASES: [ImagePattern; 5] = [
    image("milvus", r"^milvusdb/milvus.*"),
    image("qdrant", r"^qdrant/qdrant.*"),
    image("weaviate", r"^(?:.*/)?weaviate(?:[:@]|$)"),
    image("chroma", r"^chromadb/chroma.*"),
    image("pgvector", r"^(?:.*/)?pgvector(?:[:@]|$)"),
];

/// Agent frameworks by image.
pub const AGENT_IMAGES: [ImagePattern; 5] = [
    image("langflow", r"^langflowai/langflow.*"),
    image("flowise", r"^flowiseai/flowise.*"),
    image("chainlit", r"^chainlit/chainlit.*"),
    image("haystack", r"^deepset/haystack.*"),
    image("llamaindex", r"^(?:.*/)?llama-index(?:[:@]|$)"),
];

/// Agent frameworks by environment.
pub const AGENT_ENV: [EnvName; 7] = [
    env("LANGCHAIN_TRACING_V2", "langchain"),
    env("LANGCHAIN_API_KEY", "langchain"),
    env("AUTOGEN_USE_DOCKER", "autogen"),
    env("CREWAI_TELEMETRY_OPT_OUT", "crewai"),
    env("PIPELINE_YAML_PATH", "haystack"),
    env("DSPY_PROFILES_PATH", "dspy"),
    env("LLAMA_CLOUD_API_KEY", "llamaindex"),
];

/// Model APIs that are called over the network, by environment.
pub const REMOTE_APIS: [EnvName; 6] = [
    env("OPENAI_API_KEY", "openai-api"),
    env("ANTHROPIC_API_KEY", "anthropic-api"),
    env("GEMINI_API_KEY", "gemini-api"),
    env("COHERE_API_KEY", "cohere-api"),
    env("AZURE_OPENAI_API_KEY", "azure-openai-api"),
    env("AZURE_OPENAI_ENDPOINT", "azure-openai-api"),
];

/// Training frameworks by image.
pub const TRAINING_IMAGES: [ImagePattern; 4] = [
    image("pytorch", r"^pytorch/pytorch.*"),
    image("kuberay", r"^rayproject/ray.*"),
    image("jax", r"^ghcr\.io/google/jax.*"),
    image("accelerate", r"^huggingface/accelerate.*"),
];

/// Training frameworks by environment.
pub const TRAINING_ENV: [EnvName; 1] = [env("WANDB_API_KEY", "wandb")];

/// Evaluation harnesses by image.
pub const EVALUATION_IMAGES: [ImagePattern; 3] = [
    image("lm-eval", r"^eleutherai/lm-eval.*"),
    image("ragas", r"^(?:.*/)?ragas(?:[:@]|$)"),
    image("trulens", r"^(?:.*/)?trulens(?:[:@]|$)"),
];
